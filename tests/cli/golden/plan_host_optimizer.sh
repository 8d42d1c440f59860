# DeepSpeed has Adam and Lion on the host alone; accelerate replaces other optimizers by that Adam, so no plan sends their states there.
write() {
  printf 'model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\nfinetuning_type: full\ndataset: a\ntemplate: qwen\ncutoff_len: 1024\nper_device_train_batch_size: 2\nbf16: true\noptim: %s\ndeepspeed: ds.json\n' "$1" > run.yaml
  printf '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}%s}\n' "$2" > ds.json
}
show() { $PLIMSOLL plan run.yaml --gpu 12GiB --world 2 | sed -n '/accelerate replaces/,/^note/p; /memory  *step/,/^rows/p'; }
write rmsprop ''
show
$PLIMSOLL check run.yaml --gpu 12GiB --world 2 | grep -A1 'accelerate replaces'
write rmsprop ', "zero_force_ds_cpu_optimizer": false'
show
write adamw_torch ''
show
