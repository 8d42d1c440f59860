$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --svg missing/a.svg
