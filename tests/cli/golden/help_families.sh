# The families and their recordings.
$PLIMSOLL help families
