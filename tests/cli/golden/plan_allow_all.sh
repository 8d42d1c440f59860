# All concessions with one word: weights are quantised only together with adapters, and the plan explains both together.
# Several GPUs need no initial strategy.
plan() { $PLIMSOLL plan -m llama-3.1-8b -b 2 -a 8 -s 1024 "$@" 2>&1; }
on_card="--fix offload=none --fix strategy=none"
echo "== adapters and quantised weights go together"
plan --gpu 16GiB $on_card --allow quantisation,lora_rank | sed -n '/^changes/,/^$/p'
plan --gpu 16GiB $on_card --allow quantisation,lora_rank --json | grep -A9 '"knob": "quantisation"' | grep -E 'follows|with'
echo "== all"
plan --gpu 12GiB --allow all | sed -n '/^changes/,/^$/p'
echo "== eight GPUs"
plan --gpu 80GiB --world 8 | grep -E '^(note|now:|planned|strategy)'
plan --gpu 80GiB --world 8 --strategy none
