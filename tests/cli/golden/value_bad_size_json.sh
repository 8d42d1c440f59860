$PLIMSOLL replay snapshot.pickle --limit=24QB --json
