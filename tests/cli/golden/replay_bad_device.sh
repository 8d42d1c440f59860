$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --device 3
