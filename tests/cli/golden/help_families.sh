# The families, and what was recorded of each.
$PLIMSOLL help families
