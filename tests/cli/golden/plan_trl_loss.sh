# TRL's default loss depends on its version, which is said; what Liger saves of logits is said where there are some.
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
per_device_train_batch_size: 4
max_length: 512
YAML
say() { $PLIMSOLL plan sft.yaml --gpu 24GiB --fix liger=on | grep -A1 -E '^(note: no loss_type|liger:)'; }
echo "== by default" && say
echo "== all logits" && echo 'loss_type: nll' >> sft.yaml && say
