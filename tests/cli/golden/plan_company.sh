# Other things that a change affects: other commands of a script, copies of a value, files that are referred to.
mkdir p && cd p || exit 9
notes() {
  echo "== $1" && shift
  $PLIMSOLL plan "$@" --gpu 24GiB >out 2>err
  sed -n '/^files:/,/^$/p' out | grep -v '^$'
  cat err
  sed -n '/^to do by hand/,/^$/p' out | grep -v '^$'
  grep -E "^[-+][^-+]" out
}
flags="--model_name_or_path meta-llama/Llama-3.2-1B --max_length 4096 --bf16"
printf 'python train.py %s --per_device_train_batch_size 8 --gradient_accumulation_steps 4\n' "$flags" >two.sh
printf 'python train.py %s --per_device_train_batch_size 16 --gradient_accumulation_steps 2\n' "$flags" >>two.sh
notes "two commands" two.sh
cat >anchor.yaml <<'END'
base_model: meta-llama/Llama-3.2-1B
defs:
  bs: &bs 8
micro_batch_size: *bs
eval_batch_size: *bs
gradient_accumulation_steps: 4
sequence_len: 4096
sample_packing: false
bf16: true
attn_implementation: flash_attention_2
END
notes "an anchor" anchor.yaml
mkdir -p conf/model conf/trainer src
cat >conf/config.yaml <<'END'
defaults:
  - model: llama
  - override /trainer: none
  - _self_
global_batch_size: 64
data: {max_length: 2048, batch_size: "${trainer.micro_batch}"}
END
echo 'base_model_name: meta-llama/Llama-3.2-1B' >conf/model/llama.yaml
printf 'micro_batch: 16\naccumulate_grad_batches: 4\nprecision: bf16-mixed\n' >conf/trainer/one.yaml
printf '@hydra.main(config_path="../conf", config_name="config")\ndef main(cfg): ...\n' >src/train.py
echo 'python src/train.py trainer=one +trainer.devices=1' >hydra.sh
notes "Hydra's groups, and which of them the command chooses" hydra.sh
mkdir configs && mv anchor.yaml configs
echo 'accelerate launch -m axolotl.cli.train --config training/configs/anchor.yaml' >moved.sh
notes "a path from another folder" moved.sh
echo 'torchrun --nproc_per_node=4 train.py --config training/configs/nowhere.yaml' >lost.sh
notes "a file that is not here" lost.sh
