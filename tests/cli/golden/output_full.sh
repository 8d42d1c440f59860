# A full disk is an error, however much is written.
$PLIMSOLL version >/dev/full
echo $?
$PLIMSOLL help --json >/dev/full
echo $?
