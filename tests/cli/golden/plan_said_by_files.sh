# Impossible values in files, values without effect, and missing values.
(
part said_by_files
# Impossible values are reported with file and key; unclear and missing values are noted as such.
work=$(mktemp -d) && cd "$work" || exit 9
cat >base.yaml <<'EOF'
model_name_or_path: Qwen/Qwen2.5-0.5B
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
max_length: 1024
bf16: true
dataset_name: x
output_dir: o
EOF
sed 's/size: 2/size: 99999999999/' base.yaml >batch.yaml
sed 's/max_length: 1024/max_length: 99999999/' base.yaml >length.yaml
$PLIMSOLL plan batch.yaml --gpu 8GiB
$PLIMSOLL plan length.yaml --gpu 8GiB
$PLIMSOLL plan base.yaml --gpu 8GiB --batch 99999999999
$PLIMSOLL plan base.yaml --gpu 8GiB | grep -E "^(files:|note: one)"
cat >factory.yaml <<'EOF'
model_name_or_path: Qwen/Qwen2.5-0.5B
stage: sft
do_train: true
finetuning_type: full
template: qwen
cutoff_len: 1024
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
bf16: true
EOF
$PLIMSOLL plan factory.yaml --gpu 24GiB --world 1 | head -4
sed 's/train_batch_size/train_bach_size/' base.yaml >typo.yaml
$PLIMSOLL plan typo.yaml --gpu 24GiB | grep -A1 typo
$PLIMSOLL check typo.yaml --gpu 24GiB | grep -A1 bach
rm -rf "$work"
) 2>&1 || echo "exit $?"
(
part idle_settings
# A setting without effect in a file is a note, not a mistake; on the command line it is a mistake.
cat >train.yaml <<'END'
model_name_or_path: gpt2
use_liger_kernel: true
lora_dropout: 0.1
per_device_train_batch_size: 1
max_length: 64
output_dir: out
learning_rate: 1.0e-4
END
$PLIMSOLL plan train.yaml --gpu 24GiB --try micro_batch=1 | grep -A1 note:
$PLIMSOLL plan train.yaml --gpu 24GiB --try micro_batch=1 --bucket-views
) 2>&1 || echo "exit $?"
