# Mistakes are found before a program runs. Without a GPU, profile says so and points to simulate.
export XDG_STATE_HOME=$PWD/state PLIMSOLL_NVML=nowhere
try() { $PLIMSOLL profile "$@"; echo "exit $?"; } 2>&1
try 2>&1
try -- python train.py 2>&1
export PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so"
echo '{"format_version": 1}' >other.json
echo 'text' >text.json
try --step 3 python train.py 2>&1
try --compare --against other.json -- python train.py 2>&1
try --against nowhere.json -- python train.py 2>&1
try --against other.json -- python train.py 2>&1
try --against text.json -- python train.py 2>&1
try -- no-such-program 2>&1
$PLIMSOLL profile -h
find state -type f
