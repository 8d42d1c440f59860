$PLIMSOLL replay --tune
