# Every card of the catalogue, in 80 columns.
$PLIMSOLL help gpus
