# A DeepSpeed file is created next to the file that refers to it. The reference is relative to the folder in which the
# run starts, that is, the folder from which the script is found.
try() { # FOLDER
  $PLIMSOLL plan "$1/launch.sh" --seq 2048 --gpu 48GiB --world 8 --out plan.json >/dev/null
  $PLIMSOLL apply plan.json | grep created
  grep -rho "deepspeed.*ds_[^ ]*" "$1"/launch.sh
  $PLIMSOLL check "$1/launch.sh" --gpu 48GiB | grep "refers to"
  rm "$1"/ds_*.json
  $PLIMSOLL check "$1/launch.sh" --gpu 48GiB | grep -A5 "^WOULD FAIL .*refers to"
}
mkdir inner outer
cat >train.py <<'S'
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
Trainer(AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B"), args).train()
S
cat >inner/launch.sh <<'S'
torchrun --nproc_per_node 8 train.py --output_dir out --per_device_train_batch_size 8 --bf16 true
S
cp inner/launch.sh outer
try outer
mv train.py inner
try inner
