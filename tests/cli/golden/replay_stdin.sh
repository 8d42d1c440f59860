# - is standard input.
$PLIMSOLL replay - < truth/allocator/default.pickle.xz | head -4
