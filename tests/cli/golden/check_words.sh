# One finding per mistake, with a fix that can be typed: each of these was said twice, or with a fix that fails again.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
cat >train.py <<'P'
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16")
Trainer(model=model, args=args).train()
P
findings() { $PLIMSOLL check "$@" | grep -v "^ok" | sed -n '/^note        this machine/,+1d;/PYTORCH_CUDA_ALLOC_CONF is not set/,+2d;4,$p'; }
batch="--per_device_train_batch_size 2"
echo "== visible GPUs and processes"
printf 'export CUDA_VISIBLE_DEVICES=1\ntorchrun --nproc_per_node 2 train.py %s\n' "$batch" >go.sh
findings go.sh --gpu 24GiB
echo "== accumulation over 0 passes"
echo "python train.py $batch --gradient_accumulation_steps 0" >go.sh
findings go.sh --gpu 24GiB
echo "== fp16 and bf16: what the GPU has, as the file spells it"
echo "python train.py $batch --fp16 --bf16" >go.sh
for card in T4 4090; do findings go.sh --gpu $card | grep -A4 "both on"; done
$PLIMSOLL check go.sh | grep -A5 "both on"
echo "== a value that fights itself, and one that another replaces"
printf 'export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64\npython train.py %s\n' "$batch" >go.sh
$PLIMSOLL check go.sh --gpu 24GiB | grep -A6 "expandable"
echo "== a file of the launcher alone"
printf 'compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n' >accelerate.yaml
$PLIMSOLL check accelerate.yaml --gpu 24GiB | tail -5
echo "== one finding for a letter"
{ sed '/bf16/d' fixtures/small/train.yaml && echo 'bf16: y'; } >letter.yaml
$PLIMSOLL check letter.yaml --gpu 80GiB | grep -A3 "bf16"
echo "== a file that does not exist"
echo "python train.py $batch --deepspeed ds_zero3.json" >go.sh
$PLIMSOLL check go.sh --gpu 24GiB | grep -A3 ds_zero3
echo "== no GPUs at all"
$PLIMSOLL check go.sh --world 0
