# Reasons name the file and the line, and say what is wrong there once.
{
  cat >two.py <<'P'
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
a = AutoModelForCausalLM.from_pretrained("gpt2")
b = AutoModelForCausalLM.from_pretrained("gpt2-medium")
Trainer(model=a, args=TrainingArguments("o", per_device_train_batch_size=4)).train()
P
  $PLIMSOLL plan two.py --gpu 24GiB
  (echo "import settings" && sed '/gpt2-medium/d' two.py) >one.py
  printf 'x = 1\ny = [\n' >settings.py
  $PLIMSOLL plan one.py --gpu 24GiB
  : >empty.json
  $PLIMSOLL plan empty.json --gpu 24GiB
  $PLIMSOLL estimate --model empty.json
  $PLIMSOLL apply empty.json
  # The same batch with other allocator settings is not faster.
  cp -r fixtures/check/broken . && cd broken && sed -i 's/max_split_size_mb:8/max_split_size_mb:128/' launch.sh
  $PLIMSOLL plan launch.sh --gpu 20GiB | sed -n '/^planned/,/^times/p' && cd ..
  # What is left out, and how fast it would be.
  cp fixtures/seed0/start_baseline.sh fixtures/seed0/train_baseline.py . && cp -r fixtures/seed0/config .
  $PLIMSOLL plan start_baseline.sh --gpu 23.5GiB --allow quantization | sed -n '/^planned/,/^times/p'
} 2>&1
