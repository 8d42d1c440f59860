# plan --prove without anything to run: says what is missing, and what to type.
export XDG_STATE_HOME=$PWD/state
quick="--gpu 24GiB --try micro_batch=2"
part 'no files'
$PLIMSOLL plan -m qwen2.5-0.5b --gpu 24GiB --prove 2>&1
echo "exit $?"
part 'several GPUs'
$PLIMSOLL plan fixtures/check/ready/train.yaml --gpu 24GiB,80GiB --prove 2>&1
echo "exit $?"
part 'a configuration file without its launch command'
cat >train.yml <<'END'
base_model: Qwen/Qwen2.5-0.5B
micro_batch_size: 2
gradient_accumulation_steps: 1
sequence_len: 512
optimizer: adamw_torch_fused
learning_rate: 0.0002
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
END
$PLIMSOLL plan train.yml $quick --prove | grep -A2 PROVED
echo "exit ${PIPESTATUS[0]}"
$PLIMSOLL plan train.yml $quick --prove --json |
  python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["proof"], indent=1))'
part 'a script whose arguments only the user knows'
cat >train.py <<'END'
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--data")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
Trainer(model, TrainingArguments("out", per_device_train_batch_size=2, bf16=True)).train()
END
$PLIMSOLL plan train.py --seq 512 $quick --prove | grep -A2 PROVED
echo "exit ${PIPESTATUS[0]}"
part 'settings that have to be changed by hand'
cat >train.py <<'END'
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in torch.utils.data.DataLoader(data, batch_size=2):
    model(**batch).loss.backward()
    optimizer.step()
END
$PLIMSOLL plan train.py --seq 512 --gpu 24GiB --try liger=on --prove | grep -A3 PROVED
echo "exit ${PIPESTATUS[0]}"
ls state 2>/dev/null
exit 0
