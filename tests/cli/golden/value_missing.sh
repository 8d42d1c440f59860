$PLIMSOLL replay snapshot.pickle --limit
