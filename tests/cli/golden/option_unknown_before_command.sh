$PLIMSOLL --frobnicate replay
