# Every model of the catalogue, in 80 columns.
$PLIMSOLL help models
