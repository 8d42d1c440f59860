CLICOLOR_FORCE=1 $PLIMSOLL -h | head -1 | cat -v
NO_COLOR=1 CLICOLOR_FORCE=1 $PLIMSOLL -h | head -1 | cat -v
NO_COLOR=1 $PLIMSOLL --color=always -h | head -1 | cat -v
