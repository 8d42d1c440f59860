$PLIMSOLL replay no-such-file.pickle
