$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --torch newest
