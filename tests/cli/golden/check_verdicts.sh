# The last line is READY only if it is known whether the run fits.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
last() {
  $PLIMSOLL check "$@" >out
  local code=$?
  echo "$(awk -v RS= 'END { print }' out | tr -s '\n ' ' ')(exit $code)"
}
last fixtures/small/train.yaml --gpu 80GiB
last fixtures/small/train.yaml --gpu 12GiB
last fixtures/small/train.yaml
sed '/model_name/d' fixtures/small/train.yaml >nameless.yaml && last nameless.yaml --gpu 80GiB
sed 's,Qwen/Qwen2.5-0.5B,nobody/knows,' fixtures/small/train.yaml >unknown.yaml && last unknown.yaml --gpu 80GiB
printf 'from transformers import TrainingArguments\nTrainingArguments("o", per_device_train_batch_size=8)\n' >endless.py
last endless.py --model qwen2.5-0.5b --gpu 12GiB
echo 'a: 1' >nothing.yaml && last nothing.yaml --gpu 80GiB
last
$PLIMSOLL check nameless.yaml --gpu 80GiB --json | grep -A2 '"ready"'
# If the plan is not certain, check is not certain either.
peak=$($PLIMSOLL check fixtures/small/train.yaml --gpu 80GiB --json | sed -n 's/.*fits: \([0-9.]* GiB\) of.*/\1/p' | tr -d ' ')
$PLIMSOLL check fixtures/small/train.yaml --gpu $peak | grep -A3 "may not fit"
last fixtures/small/train.yaml --gpu $peak
# Adapters that are imported but not applied.
cat >kbit.py <<'P'
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", load_in_4bit=True)
args = TrainingArguments(output_dir="o", per_device_train_batch_size=1, bf16=True)
Trainer(model=model, args=args).train()
P
$PLIMSOLL check kbit.py -g 24GiB | grep -A1 "FAIL"
# A value that is neither on nor off, and a key that no one reads.
sed 's/bf16: .*/bf16: yess/; s/per_device_train_batch_size/per_device_train_batchsize/' fixtures/small/train.yaml >typos.yaml
$PLIMSOLL check typos.yaml --gpu 80GiB | grep -A5 "^warning" && last typos.yaml --gpu 80GiB
# A place that the sentence names is not printed again below it.
printf 'export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128\ntorchrun train.py\n' >fight.sh
$PLIMSOLL check fight.sh | grep -A1 "^warning"
# The unknown length does not matter to a run that fails while it loads the model, only to one that fails later.
for gpu in 24GiB 80GiB; do
  $PLIMSOLL check fixtures/share/hf/launch.sh --gpu $gpu | grep -A2 "not fit" && last fixtures/share/hf/launch.sh --gpu $gpu
done
# What saves memory and is not modelled: the verdict is not certain, and says so.
printf 'base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 512\nmicro_batch_size: 1\nbf16: true\nspectrum_top_fraction: 0.2\n' >spectrum.yaml
$PLIMSOLL check spectrum.yaml --gpu 4GiB | grep -A2 "not fit" && last spectrum.yaml --gpu 4GiB
$PLIMSOLL check spectrum.yaml --gpu 4GiB --json | grep '"verdict"'
$PLIMSOLL plan spectrum.yaml --gpu 4GiB --fix checkpoint=on | grep -A5 "^now"
# What a library refuses at the start of the run.
printf 'base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 512\nmicro_batch_size: 1\nbf16: true\noptimizer: paged_adamw_8bit\nfsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n' >shards.yaml
printf 'model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 1\nmax_length: 512\ndtype: bfloat16\noptim: rmsprop_bnb\n' >rmsprop.yaml
sed 's/rmsprop_bnb/galore_adafactor_layerwise/' rmsprop.yaml >galore.yaml
for file in shards rmsprop galore; do $PLIMSOLL check $file.yaml --gpu 24GiB | grep -A1 "^WOULD FAIL"; done
