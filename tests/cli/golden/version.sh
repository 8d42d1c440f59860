$PLIMSOLL version; $PLIMSOLL --version; $PLIMSOLL -V
