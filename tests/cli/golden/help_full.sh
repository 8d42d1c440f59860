$PLIMSOLL --help
