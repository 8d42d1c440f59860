$PLIMSOLL frobnicate
