$PLIMSOLL help version --json
