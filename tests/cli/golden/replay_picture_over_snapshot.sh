# The snapshot is never overwritten.
cp truth/allocator/default.pickle.xz mine.pickle.xz
$PLIMSOLL replay mine.pickle.xz --svg ./mine.pickle.xz; status=$?
cmp truth/allocator/default.pickle.xz mine.pickle.xz
exit $status
