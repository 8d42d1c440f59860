# Number types: the type in which the card is fast, chosen freely if the model learns the same, written as one set.
cat >axolotl.yaml <<'END'
base_model: Qwen/Qwen2.5-1.5B
adapter: lora
lora_r: 16
lora_target_linear: true
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 8
gradient_checkpointing: true
bf16: auto  # as on the cluster
END
cat >launch.sh <<'END'
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
accelerate launch --config_file accelerate.yaml train.py \
  --model_name_or_path Qwen/Qwen2.5-0.5B \
  --torch_dtype float32 \
  --per_device_train_batch_size 2 \
  --gradient_accumulation_steps 8 \
  --gradient_checkpointing \
  --bf16
END
printf 'compute_environment: LOCAL_MACHINE\nmixed_precision: bf16\nnum_processes: 1\n' >accelerate.yaml
shown() { sed -n '/^changes/,/^budget/p; /^@@/,$p' | grep -v '^budget'; }
echo "== a T4 has no bf16"
$PLIMSOLL plan axolotl.yaml --gpu T4 --fix checkpoint=on --fix micro_batch=2 --fix liger=off --fix alloc_conf=default | shown
$PLIMSOLL plan launch.sh --seq 512 --gpu T4 --fix checkpoint=on --fix micro_batch=2 --fix liger=off | shown
echo "== float32 on a card that has it"
$PLIMSOLL plan --model qwen2.5-0.5b --dtype fp32 --seq 1024 --batch 8 --gpu 4090 --fix checkpoint=on
echo "== as asked"
$PLIMSOLL plan --model qwen2.5-0.5b --dtype fp32 --seq 1024 --batch 8 --gpu 4090 --effective-batch 8 --try precision=none,float16 | shown
$PLIMSOLL plan --model qwen2.5-0.5b --dtype fp32 --seq 1024 --batch 8 --gpu 4090 --fix precision=none | grep -c precision
$PLIMSOLL plan --model qwen2.5-0.5b --gpu 4090 --fix precision=fp8
