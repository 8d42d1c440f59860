$PLIMSOLL --json
