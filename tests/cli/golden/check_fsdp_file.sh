# FSDP's own checkpointing, said in the file that --fsdp_config names; and a plimsoll.yaml beside it.
cat >run.sh <<'S'
torchrun --nproc_per_node 2 t.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 4 --gradient_checkpointing --fsdp "full_shard auto_wrap" --fsdp_config fsdp.json
S
echo '{"activation_checkpointing": true, "xla": false}' >fsdp.json
printf 'knobs:\n  micro_batch: run.sh:--per_device_train_batch_size\n' >plimsoll.yaml
$PLIMSOLL check run.sh --gpu 80GiB >found; grep "^plimsoll.yaml" found; grep -A4 "FSDP's" found
echo '{"activation_checkpointing": false}' >fsdp.json
$PLIMSOLL check run.sh --gpu 80GiB | grep "fight"
