echo "hello" > notes.txt
$PLIMSOLL replay notes.txt
