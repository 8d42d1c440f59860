$PLIMSOLL --color=always repaly 2>&1 | cat -v; $PLIMSOLL replay --color=always --tuen 2>&1 | cat -v
