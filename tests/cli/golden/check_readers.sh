# Values that this program reads although the file's own reader refuses or misreads them.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
say() { $PLIMSOLL check "$@" -m llama-3.2-1b --world 1 --gpu 80GiB | grep -A7 -E "^[a-zA-Z ]+  (a comma|a comment|a key|several)" | sed '/^ok/,$d;/^$/,$d'; }
printf '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2},}\n' >comma.json
printf '{"train_micro_batch_size_per_gpu": 4, // mine\n "zero_optimization": {"stage": 2}}\n' >comment.json
printf '{"train_micro_batch_size_per_gpu": 4, "train_micro_batch_size_per_gpu": 8}\n' >twice.json
for f in comma comment twice; do
  printf 'from transformers import TrainingArguments\nTrainingArguments("o", per_device_train_batch_size=4, deepspeed="%s.json")\n' $f >train.py
  echo "-- $f, by transformers" && say train.py
  echo "-- $f, by DeepSpeed" && say $f.json
done
printf 'base_model: a\nmicro_batch_size: 2\nsequence_len: 512\nadapter: lora\n' >axolotl.yaml
{ cat axolotl.yaml && echo 'micro_batch_size: 4'; } >twice.yaml && echo "-- twice, by Axolotl" && say twice.yaml
{ cat axolotl.yaml && echo '---' && echo 'b: 1'; } >two.yaml && echo "-- two documents" && say two.yaml
printf 'batch_size: 2\nbatch_size: 4\nmodel:\n  _component_: torchtune.models.llama3.llama3_8b\ntokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n' >tune.yaml
echo "-- twice, by torchtune" && say tune.yaml
printf -- '---\nx: &a {k: 1}\ny: {<<: *a, k: 2}\n1: a\n"1": b\nlist: [{k: 1}, {k: 2}]\n' >fine.yaml && echo "-- none" && say fine.yaml
