# A program that uses the card, but does not load the module that observes it.
export XDG_STATE_HOME=$PWD/state
use='import ctypes; ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 30))'
$PLIMSOLL simulate --unsandboxed --gpu 4090 -- python3 -I -c "$use" | grep -v '^log: '
# A list of this machine's cards is not for the simulated one; a list that the simulated cards have is.
count='import ctypes; n = ctypes.c_int(); ctypes.CDLL(None).cudaGetDeviceCount(ctypes.byref(n)); print("sees", n.value)'
for list in 3 GPU-1b2c '' 1; do
  CUDA_VISIBLE_DEVICES=$list $PLIMSOLL simulate --unsandboxed --verbose --gpus 2 --gpu 4090 -- python3 -I -c "$count" 2>&1 | grep -E '^(note|sees)'
done
# A program that fails is one JSON document too.
$PLIMSOLL simulate --unsandboxed --json --gpu 4090 -- false 2>/dev/null >report.json
echo "exit $?"
python3 -c 'import json; print(json.load(open("report.json"))["verdict"])'
