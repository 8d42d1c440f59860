$PLIMSOLL version now
