# What a file says and has no effect is a note, not a mistake; what is typed is one.
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
