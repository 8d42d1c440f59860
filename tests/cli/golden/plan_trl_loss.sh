# TRL's default loss depends on its version, which is said; what Liger saves of logits is said where there are some.
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
dataset_name: trl-lib/Capybara
per_device_train_batch_size: 4
max_length: 512
bf16: true
YAML
echo "accelerate launch trl/scripts/sft.py --config sft.yaml" > run.sh
say() { $PLIMSOLL plan run.sh --gpu 24GiB "$@" 2>&1 | grep -A1 -E '^(error|note: no loss_type|liger:)'; }
echo "== by default" && say
echo "== Liger, where all are" && echo 'loss_type: nll' >> sft.yaml && say --fix liger=on
echo "== Liger, where no logits are in the peak"
sed -i 's/qwen2.5-0.5b/llama-3.1-8b/; s/max_length: 512/max_length: 4096/; /loss_type/d; s/size: 4/size: 16/' sft.yaml
say --fix liger=on --fix chunked_loss=0 --fix strategy=fsdp2 --world 8 --gpu 141GiB | grep -A1 ^liger
