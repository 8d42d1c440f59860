# Trainers without a configuration: their defaults are the settings. A script with flags asks for its command.
export COLUMNS=80
said() { sed -n "1p; /^note: not set/,/^now/p; /^note: .* reads flags/,/^now/p; /^error/,\$p" | grep -v "^now\|^$" | uniq; }
for trainer in SFT DPO KTO ORPO CPO Reward PRM GRPO; do
  echo "== ${trainer}Trainer"
  printf "from trl import ${trainer}Trainer\n${trainer}Trainer(model=\"Qwen/Qwen2.5-0.5B\", train_dataset=None).train()\n" >train.py
  $PLIMSOLL plan train.py --gpu 80GiB 2>&1 | said
done
echo "== flags"
cat >train.py <<'Y'
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16"), args=args).train()
Y
$PLIMSOLL plan train.py --gpu 80GiB 2>&1 | said
$PLIMSOLL plan train.py --command "python train.py --bf16 true" --gpu 80GiB 2>&1 | said
$PLIMSOLL plan train.py --batch 4 --gpu 80GiB 2>&1 | said
cat >train.py <<'Y'
from trl import DPOConfig, DPOTrainer, ModelConfig, ScriptArguments, TrlParser

script, training, model = TrlParser((ScriptArguments, DPOConfig, ModelConfig)).parse_args_and_config()
DPOTrainer(model=model.model_name_or_path, args=training, train_dataset=None).train()
Y
$PLIMSOLL plan train.py --gpu 80GiB 2>&1 | said
echo "== a loop"
cat >train.py <<'Y'
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(range(100)):
    model(**batch).loss.backward()
    optimizer.step()
Y
$PLIMSOLL plan train.py --gpu 80GiB 2>&1 | said
