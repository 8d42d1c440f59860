$PLIMSOLL replay --alocconf x snapshot.pickle --json
