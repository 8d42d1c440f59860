# Adapters: which code casts weights to float32 next to quantised ones, and the default targets.
(
part kbit
# Weights that are not quantised become float32 if a script calls peft's function, and stay if it does not; each
# ecosystem has its own rule, and --prepare overrides it.
export HF_HOME=nowhere PLIMSOLL_NVML=none
script() {
  cat <<P
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments, Trainer
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", quantization_config=bnb, torch_dtype=torch.bfloat16)
$1
model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear"))
args = TrainingArguments("o", per_device_train_batch_size=1, bf16=True, gradient_checkpointing=True)
P
}
script "" >plain.py && script "model = prepare_model_for_kbit_training(model)" >prepared.py
cat >trl.sh <<'S'
trl sft --model_name_or_path meta-llama/Llama-3.2-1B --dataset_name d --use_peft --lora_r 16 --load_in_4bit --dtype bfloat16 --per_device_train_batch_size 1 --max_length 2048 --bf16 --output_dir o
S
cat >axolotl.yaml <<'Y'
base_model: meta-llama/Llama-3.2-1B
load_in_4bit: true
adapter: qlora
lora_r: 16
lora_target_linear: true
sequence_len: 2048
micro_batch_size: 1
bf16: true
Y
cat >factory.yaml <<'Y'
model_name_or_path: meta-llama/Llama-3.2-1B
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 16
quantization_bit: 4
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
Y
{ cat factory.yaml && echo 'upcast_layernorm: true'; } >norms.yaml
for f in plain.py prepared.py trl.sh axolotl.yaml factory.yaml norms.yaml; do
  for how in default peft none; do
    echo "$f $how $($PLIMSOLL plan $f --seq 2048 -g 24GiB --prepare $how --try micro_batch=1 | grep -E "^now:")"
  done
  $PLIMSOLL plan $f --seq 2048 -g 24GiB --try micro_batch=1 | grep -A1 -E "^note.*(prepare|TRL before|upcast)"
done
for how in default peft none; do
  $PLIMSOLL estimate -m llama-3.2-1b --weights nf4-double --lora-rank 16 -c --amp bf16 -g 24GiB --prepare $how | grep FITS
done
$PLIMSOLL plan -m llama-3.2-1b --prepare none -g 24GiB
) 2>&1 || echo "exit $?"
(
part peft_targets
# Adapters without target_modules get peft's defaults; code that is not analysed is named.
mkdir p && cd p || exit 9
printf 'TrainingArguments("o", per_device_train_batch_size=4, bf16=True)\nTrainer(get_peft_model(m, LoraConfig(r=16)))\n' >train.py
for model in llama-3.2-1b gpt2 roberta-base; do
  $PLIMSOLL plan train.py --model $model --seq 256 --gpu 24GiB | sed -n 1p
done
printf 'TrainingArguments("o", per_device_train_batch_size=4)\nFullyShardedDataParallel(m)\nm.to(torch.bfloat16)\n' >own.py
$PLIMSOLL plan own.py --model gpt2 --seq 256 --gpu 24GiB | sed -n '/^note: own/,/^$/p'
) 2>&1 || echo "exit $?"
