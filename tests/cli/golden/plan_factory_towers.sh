# LLaMA-Factory freezes what sees images, and leaves it in the checkpoint's type; not in models that it does not know as composite.
run() {
  printf 'model_name_or_path: %s\nstage: sft\ndo_train: true\nfinetuning_type: full\ndataset: a\ntemplate: a\ncutoff_len: 1024\nper_device_train_batch_size: 1\nbf16: true\n%s\n' "$1" "$2" > run.yaml
  echo "== $1 $2"
  $PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 | grep -E "^[A-Z].*/|is frozen|^now|^weights|^gradients|^optimizer  |^plimsoll"
}
run Qwen/Qwen2.5-VL-3B-Instruct ''
run Qwen/Qwen2.5-VL-3B-Instruct 'deepspeed: examples/deepspeed/ds_z3_config.json'
run Qwen/Qwen2.5-VL-3B-Instruct 'freeze_vision_tower: false'
run Qwen/Qwen2.5-VL-3B-Instruct 'freeze_multi_modal_projector: false'
run HuggingFaceTB/SmolVLM2-2.2B-Instruct ''
