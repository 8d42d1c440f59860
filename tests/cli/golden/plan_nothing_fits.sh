# Nothing fits: what would be needed, and the memory of the host.
(
part nothing_fits
# Nothing fits: exit 1, and what would be needed. DeepSpeed could keep the weights on the host.
echo "== with the host"
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 16GiB | grep -A1 -E '^(planned|--allow)'
echo "== without"
$PLIMSOLL plan --model qwen2.5-7b --lora-rank 128 --lora-dropout 0.05 --amp bf16 --loop trainer --batch 2 --accumulate 8 --seq 2048 --checkpoint --gpu 16GiB --fix offload=none
) 2>&1 || echo "exit $?"
(
part host
# Only offload to the host fits, on one GPU and on several, with its cost; as JSON too.
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
) 2>&1 || echo "exit $?"
