# Adapters that are told no target_modules go where peft puts them; code that is not read is named.
mkdir p && cd p || exit 9
printf 'TrainingArguments("o", per_device_train_batch_size=4, bf16=True)\nTrainer(get_peft_model(m, LoraConfig(r=16)))\n' >train.py
for model in llama-3.2-1b gpt2 roberta-base; do
  $PLIMSOLL plan train.py --model $model --seq 256 --gpu 24GiB | sed -n 1p
done
printf 'TrainingArguments("o", per_device_train_batch_size=4)\nFullyShardedDataParallel(m)\nm.to(torch.bfloat16)\n' >own.py
$PLIMSOLL plan own.py --model gpt2 --seq 256 --gpu 24GiB | sed -n '/^note: own/,/^$/p'
