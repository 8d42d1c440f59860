# Mistakes are found before a program runs; help shows the command line that simulate takes.
export XDG_STATE_HOME=$PWD/state
try() { $PLIMSOLL simulate "$@"; echo "exit $?"; } 2>&1
try 2>&1
try --gpu 4090 --gpus 999 -- python train.py 2>&1
try --gpu 4090 --world 1 -- python train.py 2>&1
try --gpu 4090 --gpus 4 --world 2 -- python train.py 2>&1
try --gpu nonsense -- python train.py 2>&1
try --gpu 4090 --fault refuse=all@stp=3 -- python train.py 2>&1
try --gpu 4090 --fault flood -- python train.py 2>&1
try --gpu 4090 --fault leak -- python train.py 2>&1
try --gpu 4090 --step 3 python train.py 2>&1
try --svg log.svg --html log.svg -- python train.py 2>&1
try --out no/such/snapshot.pickle -- python train.py 2>&1
try --svg no/such/timeline.svg -- python train.py 2>&1
echo precious >mine.py
try --out mine.py -- python train.py 2>&1
$PLIMSOLL profile --out mine.py -- python train.py 2>&1
cat mine.py
XDG_STATE_HOME=/proc/nowhere try --gpu 4090 -- python train.py 2>&1
echo pass >train.py
try --gpu 4090 --unsandboxed -- train.py 2>&1
try --gpu 4090 --unsandboxed -- no-such-program 2>&1
try --gpu 4090 --unsandboxed -- python3 -S -c 'import torch' 2>&1 | grep -v '^ \|^Traceback'
rm -r state train.py
# The options behind the program's name are its own.
$PLIMSOLL simulate -h | head -20
ls state 2>/dev/null
# A program that fails: one document of JSON, and the error beside it.
$PLIMSOLL simulate --gpu 4090 --json --unsandboxed -- bash -c 'echo broken; exit 3' 2>err |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["verdict"])'
grep -E '^(broken|error)' err
# What it printed is shown as it was: a progress bar with its carriage returns; but nothing that controls the terminal.
$PLIMSOLL simulate --gpu 4090 --unsandboxed -- bash -c 'printf "10%%\r20%%\n\033[2Jfailed\n"; exit 3' 2>&1 | head -2 | od -c
