$PLIMSOLL help help
