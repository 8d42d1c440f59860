# A batch, an accumulation or a number of GPUs that the files leave open is asked for, never made up.
mkdir p && cd p || exit 9
ask() {
  echo "== $1" && shift
  $PLIMSOLL plan "$@" --model llama-3.2-1b --gpu 24GiB 2>&1 | grep -oE "effective batch.*|error: .*|help: .*"
}
cat >two.py <<'END'
warm = TrainingArguments("a", per_device_train_batch_size=16, gradient_accumulation_steps=1, bf16=True)
main = TrainingArguments("b", per_device_train_batch_size=32, gradient_accumulation_steps=4, bf16=True)
END
ask "two of them" two.py
ask "the batch is told" two.py --batch 32
ask "and the accumulation" two.py --batch 32 --accumulate 4
ask "or where both are" two.py --set "micro_batch=two.py:TrainingArguments#2.per_device_train_batch_size" \
  --set "accumulate=two.py:TrainingArguments#2.gradient_accumulation_steps"
flags="--per_device_train_batch_size 16 --gradient_accumulation_steps 2 --max_length 512 --bf16"
echo 'NPROC=$(nvidia-smi -L | wc -l); torchrun --nproc_per_node $NPROC train.py '"$flags" >counted.sh
ask "GPUs that are counted when it runs" counted.sh
echo "torchrun --nproc_per_node=gpu train.py $flags" >all.sh
ask "all GPUs there are" all.sh
echo "torchrun --nproc_per_node=auto train.py $flags" >auto.sh
ask "the same" auto.sh
ask "told" auto.sh --world 2
echo 'python train.py --per_device_train_batch_size $1 --gradient_accumulation_steps 2 --bf16' >given.sh
ask "what the caller gives" given.sh
printf 'trainer:\n  accumulate_grad_batches: 4\n  max_epochs: 3\n  precision: bf16-mixed\n' >none.yaml
ask "nobody says it" none.yaml
