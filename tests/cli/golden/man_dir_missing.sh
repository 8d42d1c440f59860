$PLIMSOLL man --dir nowhere
