# A program that uses the card, but does not load the module that observes it.
export XDG_STATE_HOME=$PWD/state
use='import ctypes; ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30))'
$PLIMSOLL simulate --unsandboxed --gpu 4090 -- python3 -I -c "$use" | grep -v '^log: '
# A program that fails is one JSON document too.
$PLIMSOLL simulate --unsandboxed --json --gpu 4090 -- false 2>/dev/null >report.json
echo "exit $?"
python3 -c 'import json; print(json.load(open("report.json"))["verdict"])'
