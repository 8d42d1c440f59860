# What a plan for Axolotl writes about checkpoints and offloaded activations is read as what it predicts: with every kind of
# weights, from every way to write it, and for fallbacks, a plan that is applied needs to the byte what was promised.
base="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 2
optimizer: adamw_torch_fused
bf16: true
attn_implementation: flash_attention_2"
adapter="lora_r: 8
lora_target_linear: true"
# write KIND START: run.yaml
write() {
  case $1 in
  full) printf '%s\n' "$base" ;;
  lora) printf '%s\nadapter: lora\n%s\n' "$base" "$adapter" ;;
  int8) printf '%s\nadapter: lora\nload_in_8bit: true\n%s\n' "$base" "$adapter" ;;
  nf4) printf '%s\nadapter: qlora\nload_in_4bit: true\n%s\n' "$base" "$adapter" ;;
  esac > run.yaml
  case $2 in
  on) printf 'gradient_checkpointing: true\n' ;;
  word) printf 'gradient_checkpointing: offload\n' ;;
  kwargs) printf 'gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n' ;;
  true) printf 'gradient_checkpointing: true\nactivation_offloading: true\n' ;;
  esac >> run.yaml
}
# compare LABEL RUNG: the row of plan.json, and run.yaml now
compare() {
  $PLIMSOLL plan run.yaml --gpu 80GiB --json > now.json
  python3 - "$@" <<'X'
import json, sys
plan, now = json.load(open("plan.json")), json.load(open("now.json"))
planned = plan["ladder"][int(sys.argv[2]) - 1]["estimate"]["device_bytes"]
written = now["before"]["device_bytes"]
print(sys.argv[1], "as planned" if planned == written else f"planned {planned}, written {written}")
X
}
fixed="--fix micro_batch=2 --fix accumulate=2 --fix liger=off --fix chunked_loss=off --fix optimizer=adamw"
# try KIND START FLAG...
try() {
  local kind=$1 start=$2
  shift 2
  write "$kind" "$start"
  $PLIMSOLL plan run.yaml --gpu 80GiB $fixed "$@" --json --out saved.json > plan.json
  $PLIMSOLL apply saved.json > applied.txt 2>&1
  sed -n '/^gradient_checkpointing/,$p' run.yaml | paste -sd' ' | tr -s ' '
  compare "  $kind" 1
}
for kind in full lora int8; do
  (
    part "$kind"
    try $kind on --fix offload=activations
    try $kind on --fix checkpoint=off
    try $kind word --fix offload=activations
    try $kind word --fix offload=none
    try $kind true --fix offload=none
    try $kind kwargs --fix offload=activations
    try $kind kwargs --fix checkpoint=reentrant --fix offload=activations
  )
done
(
part old-word-is-the-new-one
for kind in full lora nf4; do
  write $kind word && $PLIMSOLL plan run.yaml --gpu 80GiB --json > plan.json
  write $kind true && $PLIMSOLL plan run.yaml --gpu 80GiB --json > now.json
  python3 -c "
import json
a, b = (json.load(open(name))['before'] for name in ('plan.json', 'now.json'))
print('$kind', a['device_bytes'] == b['device_bytes'], a['step_seconds'] == b['step_seconds'])"
done
)
(
part fallbacks
longer() { write "$1" on && sed -i 's/sequence_len: .*/sequence_len: 8192/' run.yaml; }
for kind in int8 lora; do
  longer $kind
  $PLIMSOLL plan run.yaml --gpu 8GiB --fix chunked_loss=off --json --out saved.json > plan.json
  for rung in $(python3 -c "
import json
print(*[i + 1 for i, row in enumerate(json.load(open('plan.json'))['ladder']) if row['offload'] == 'activations'])"); do
    longer $kind
    $PLIMSOLL apply saved.json --rung $rung > applied.txt 2>&1 || cat applied.txt
    compare "$kind" $rung
  done
done
)
(
part no-such-checkpoints
write lora on
$PLIMSOLL plan run.yaml --gpu 80GiB --fix checkpoint=offloaded
)
