# Batches, lengths and GPUs that files leave open or set wrongly are asked for, never guessed.
(
part unclear_batch
# A batch, an accumulation or a number of GPUs that the files leave open is asked for, never guessed.
mkdir p && cd p || exit 9
ask() {
  echo "== $1" && shift
  $PLIMSOLL plan "$@" --model ../fixtures/tiny --gpu 24GiB 2>&1 | grep -oE "effective batch.*|error: .*|help: .*"
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
) 2>&1 || echo "exit $?"
(
part no_counts
# Invalid counts, contradicting batches, files with several documents: unclear, with the reason.
mkdir p && cd p || exit 9
ask() {
  file=$1 && shift
  printf -- "$1" >"$file" && shift
  $PLIMSOLL plan "$file" --model ../fixtures/tiny --gpu 24GiB "$@" 2>&1 | grep -oE "effective batch.*|error: .*|help: .*"
}
head='output_dir: o\nbf16: true\nmax_length: 512\n'
batch='per_device_train_batch_size'
echo "== batches" && ask a.yaml "$head$batch: 0\n"
ask a.yaml "$head$batch: -2\n"
ask a.yaml "$head$batch: 2.5\n"
ask a.yaml "$head$batch: auto\n"
ask a.yaml "$head$batch: \"4\"\n"
echo "== accumulation" && ask a.yaml "$head$batch: 4\ngradient_accumulation_steps: 0\n"
ask a.yaml "$head$batch: 4\ngradient_accumulation_steps: 1.5\n"
echo "== lengths" && ask a.yaml "output_dir: o\n$batch: 4\nmax_length: 0\n"
ask a.yaml "output_dir: o\n$batch: 4\nmax_length: -1\n"
ask a.py "args = SFTConfig(max_length=None, $batch=4)\n"
ask a.py "args = SFTConfig(max_length=None, $batch=4)\n" --seq 512
echo "== ranks" && ask a.yaml "$head$batch: 4\nlora_r: -8\n"
ask a.yaml "$head$batch: 4\nlora_r: 7.5\n"
ask a.yaml "$head$batch: 4\nlora_r: 0\n"
ask a.yaml "$head$batch: 4\nuse_peft: true\nlora_r: 0\n"
ask a.py "args = TrainingArguments($batch=4)\npeft = get_peft_model(model, LoraConfig(r=0))\n"
echo "== Axolotl's batch_size"
axolotl='base_model: x/y\nsequence_len: 512\nadapter: lora\nlora_r: 8\ndatasets: []\nmicro_batch_size: 2\n'
ask x.yaml "${axolotl}batch_size: 32\n"
ask x.yaml "${axolotl}batch_size: 32\n" --accumulate 16
ask x.yaml "${axolotl}batch_size: 32\ngradient_accumulation_steps: 16\n"
ask x.yaml "${axolotl}gradient_accumulation_steps: 16\n"
echo "== several documents" && ask two.yaml "$head$batch: 4\n---\n$head$batch: 8\n"
ask two.yaml "$head$batch: 4\n---\n"
ask two.yaml "---\n$head$batch: 4\n...\n"
echo "== another batch than the files say"
ask a.yaml "$head$batch: 8\ngradient_accumulation_steps: 8\n" --batch 12
ask a.yaml "$head$batch: 8\ngradient_accumulation_steps: 8\n" --effective-batch 128
ask a.yaml "$head$batch: 8\ngradient_accumulation_steps: 8\n" --world 2
ask a.yaml "$head$batch: 8\ngradient_accumulation_steps: 8\n" --batch 16 --accumulate 4
) 2>&1 || echo "exit $?"
