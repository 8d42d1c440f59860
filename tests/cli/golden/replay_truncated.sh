head -c 20000 truth/snapshots/stacks-tiny.pickle.xz > cut.pickle.xz
$PLIMSOLL replay cut.pickle.xz
