$PLIMSOLL man help
