# Mistyped commands and options are named, with what to type instead: exit 2.
try() {
  echo "\$ plimsoll $*"
  $PLIMSOLL "$@" 2>&1
  echo "exit $?"
}
try
try --json
try repaly
try frobnicate
try --frobnicate replay
try version now
try replay --tune
try replay --alocconf x snapshot.pickle
try replay --alocconf x snapshot.pickle --json
try version --color alwys
try replay snapshot.pickle --limit
try replay snapshot.pickle --limit 24QB
try replay snapshot.pickle --limit=24QB --json
try completion bsh
try help repaly
for topic in modles gpu stowage; do try help $topic; done
try man --dir nowhere
echo "== what is missing, in words"
$PLIMSOLL apply 2>&1
$PLIMSOLL plan --gpu 2>&1
