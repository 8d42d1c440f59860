$PLIMSOLL -h | head -1 | cat -v
