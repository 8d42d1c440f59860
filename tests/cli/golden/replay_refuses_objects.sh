printf "\200\004cposix\nsystem\n." > evil.pickle
$PLIMSOLL replay evil.pickle --json
