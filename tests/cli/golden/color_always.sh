$PLIMSOLL --color=always -h | head -1 | cat -v; $PLIMSOLL -h --color always | head -1 | cat -v
