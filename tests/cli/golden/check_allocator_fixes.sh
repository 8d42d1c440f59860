# A fix must not lead into the next warning: where expandable segments are on, max_split_size_mb is removed. plan shows
# the line of the same mistake.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
cat >train.py <<'P'
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
args = TrainingArguments("o", per_device_train_batch_size=4)
Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=args).train()
P
for conf in expandable_segments:True,max_split_size_mb:8 max_split_size_mb:8,expandable_segments:True \
  max_split_size_mb:8,expandable_segments:False max_split_size:128; do
  printf 'export PYTORCH_CUDA_ALLOC_CONF="%s"\npython train.py\n' $conf >launch.sh
  $PLIMSOLL check launch.sh | grep -E -A8 'CONF: ' | grep -E 'CONF|fix:'
  $PLIMSOLL plan launch.sh --gpu 24GiB 2>&1
done
