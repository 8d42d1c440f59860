$PLIMSOLL completion bsh
