# Counts that are none, batches that are said otherwise, files with several documents: asked about, with the reason.
mkdir p && cd p || exit 9
ask() {
  file=$1 && shift
  printf -- "$1" >"$file" && shift
  $PLIMSOLL plan "$file" --model llama-3.2-1b --gpu 24GiB "$@" 2>&1 | grep -oE "effective batch.*|error: .*|help: .*"
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
