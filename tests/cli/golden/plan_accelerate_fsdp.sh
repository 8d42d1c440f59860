# FSDP through accelerate under mixed precision: what is trained is float32, and gradients travel in what is computed in.
cat > train.yaml <<'END'
model_name_or_path: qwen2.5-0.5b
dtype: bfloat16
per_device_train_batch_size: 2
bf16: true
END
cp fixtures/accelerate_fsdp2.yaml accelerate.yaml
held="-s 512 --gpu 24GiB --try checkpoint=off"
show() { grep -E '^(now:|weights|gradients|optimizer|note)|^      '; }
echo "== Trainer"
$PLIMSOLL plan train.yaml accelerate.yaml $held | show
recipe="-m qwen2.5-0.5b -b 2 -s 512 --loop trainer --mask longest --world 4 --strategy fsdp2 --amp bf16"
$PLIMSOLL estimate $recipe --gpu 24GiB | grep -E '^FITS|weights|gradients|optimizer'
echo "== adapters"
echo 'lora_r: 16' >> train.yaml
$PLIMSOLL plan train.yaml accelerate.yaml $held | show
echo "== torchtune shards by itself"
cat > tune.yaml <<'END'
model: {_component_: torchtune.models.qwen2_5.qwen2_5_0_5b}
optimizer: {_component_: torch.optim.AdamW}
tokenizer: {max_seq_len: 512}
batch_size: 2
dtype: bf16
fsdp_cpu_offload: false
END
$PLIMSOLL plan tune.yaml -m qwen2.5-0.5b --world 4 --strategy fsdp2 $held | show
