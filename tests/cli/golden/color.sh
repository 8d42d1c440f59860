# Colour is controlled by option and environment, also in errors; without a terminal there is none by default.
first() { "$@" | head -1 | cat -v; }
first $PLIMSOLL -h
first $PLIMSOLL --color=always -h
first $PLIMSOLL -h --color always
CLICOLOR_FORCE=1 first $PLIMSOLL -h
NO_COLOR=1 CLICOLOR_FORCE=1 first $PLIMSOLL -h
NO_COLOR=1 first $PLIMSOLL --color=always -h
$PLIMSOLL --color=always repaly 2>&1 | cat -v; $PLIMSOLL replay --color=always --tuen 2>&1 | cat -v
