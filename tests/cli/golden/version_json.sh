$PLIMSOLL version --json; $PLIMSOLL --json version | cmp - <($PLIMSOLL --version --json)
