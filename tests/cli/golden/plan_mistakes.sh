# Each mistake is named, with what to type instead; impossible values; files that end too early.
(
part mistakes
# Each mistake is named, with what to type instead.
for mistake in "--model gpt2" "--model gpt2 --gpu 24GiB --try micro_bach=1" "--model gpt2 --gpu 24GiB --fix checkpoint=maybe" \
  "--model gpt2 --gpu 24GiB --effective-batch some" "--model gpt2 --gpu 24GiB --margin 2" "--gpu 24GiB bash train.sh"; do
  $PLIMSOLL plan $mistake
  echo "exit $?" >&2
done
) 2>&1 || echo "exit $?"
(
part refused_values
# An impossible value is named with the setting that it conflicts with, or the reason; a batch that does not divide has
# its own message.
cat > train.py <<'EOF'
from trl import SFTConfig, SFTTrainer
args = SFTConfig(max_length=1024, per_device_train_batch_size=4, gradient_accumulation_steps=4, bf16=True)
SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args).train()
EOF
plan() { $PLIMSOLL plan "$@" 2>&1 | head -2; }
plan train.py --gpu 24GiB --fix liger=on
plan train.py --gpu 24GiB --fix liger=on --fix chunked_loss=off | head -1
plan train.py --gpu 24GiB --fix liger=on --fix chunked_loss=512
plan -m bert-base-uncased --gpu 24GiB -b 2 --fix liger=on
plan -m gpt2 --gpu 24GiB -b 2 -a 8 --fix micro_batch=3
) 2>&1 || echo "exit $?"
(
part truncated
# Files that end too early, one of each format: where, and what to do.
work=$(mktemp -d) && cd "$work" || exit 9
printf 'per_device_train_batch_size: 2\noutput_dir: "out\n' > train.yaml
printf '{"train_micro_batch_size_per_gpu": 1,' > ds.json
printf 'batch = [1\n' > train.toml
printf 'batch = (1,\n' > train.py
for file in train.yaml ds.json train.toml train.py; do
    $PLIMSOLL plan "$file" -m tiny-llama --gpu 24GiB
done
rm -rf "$work"
) 2>&1 || echo "exit $?"
(
part a_long_list
# A list is read to its end, however long it is.
$PLIMSOLL plan -m tiny-llama --gpu 24GiB --allow "$(printf 'lora_rank,%.0s' {1..30})nonsense"
) 2>&1 || echo "exit $?"
