# Private pools are not recorded, so the replay is not exact and says so.
$PLIMSOLL replay truth/recorded/mempool.pickle.xz | head -13
# - is standard input.
$PLIMSOLL replay - < truth/allocator/default.pickle.xz | head -4
