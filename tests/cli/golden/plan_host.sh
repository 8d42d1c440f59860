# Where nothing else fits: the host's memory, on one GPU and on several, with what that takes; as data too.
full="--model llama-3.2-1b --batch 1 --accumulate 8 --seq 512 --checkpoint"
$PLIMSOLL plan $full --gpu 8GiB | sed -n '/^now:/,/^budget/p; /^host/p; /^not used/,$p'
echo "== allowed to round"
$PLIMSOLL plan $full --gpu 9.5GiB --allow optimizer | sed -n '/^now:/,/^budget/p'
echo "== several GPUs"
$PLIMSOLL plan $full --gpu 6GiB --world 2 --strategy ddp --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["environment"], d["launch"]["command"])
for f in d["launch"]["files"]: print(f["path"] + ":\n" + f["text"], end="")
for c in d["changes"]: print(c["knob"], c["from"], c["to"], c["with"], c["follows"])'
