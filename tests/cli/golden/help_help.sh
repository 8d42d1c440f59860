$PLIMSOLL help help
$PLIMSOLL help replay >a
$PLIMSOLL replay --help >b
$PLIMSOLL --color=never --help replay >c
cmp a b && cmp a c && grep -c -e --alloc-conf a
