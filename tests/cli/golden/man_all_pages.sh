mkdir d && $PLIMSOLL man --dir d && $PLIMSOLL man replay | cmp - d/plimsoll-replay.1; ls d
