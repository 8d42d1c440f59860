# What a plan turns, with the values it takes.
$PLIMSOLL help knobs
