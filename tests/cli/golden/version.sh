$PLIMSOLL version; $PLIMSOLL --version; $PLIMSOLL -V
$PLIMSOLL version --json; $PLIMSOLL --json version | cmp - <($PLIMSOLL --version --json)
