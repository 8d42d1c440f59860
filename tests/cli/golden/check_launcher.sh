# Who starts the processes, how many there are and which cards they see.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
cat >train.py <<'S'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

args = TrainingArguments(output_dir="out", per_device_train_batch_size=1, bf16=True, deepspeed="ds.json")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16", device_map="auto")
Trainer(model=model, args=args).train()
S
echo '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}' >ds.json
look() { $PLIMSOLL check "$@" --gpu 4090 | grep -E -A5 "$what"; }
what="WOULD FAIL|^[A-Z]*READY"
echo "== plain python and DeepSpeed; one process spreads over one card"
echo 'python3 train.py 2>&1 | tee log.txt' >go.sh
look go.sh
for line in "deepspeed --num_gpus 1 train.py" "MASTER_ADDR=localhost RANK=0 python train.py"; do
  echo "== $line" && echo "$line" >go.sh && look go.sh
done
echo "== two processes"
echo "torchrun --nproc_per_node 2 train.py" >go.sh && look go.sh
echo "== fewer cards than processes"
printf 'export CUDA_VISIBLE_DEVICES=0\ntorchrun --nproc_per_node 2 train.py\n' >go.sh
what=visible && look go.sh
printf 'export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node 2 train.py\n' >go.sh && look go.sh
printf 'export CUDA_VISIBLE_DEVICES=0\npython train.py\n' >go.sh && look go.sh --world 2
$PLIMSOLL plan go.sh --gpu 4090 --world 2 --try micro_batch=1 | grep -A1 CUDA_VISIBLE
echo "== nobody says how many GPUs: eight are assumed"
{ cat fixtures/small/train.yaml && echo 'deepspeed: ds.json'; } >zero.yaml
$PLIMSOLL check zero.yaml -m llama-3.2-1b --gpu 80GiB | grep -E -A1 "assuming 1|fits|READY"
$PLIMSOLL check zero.yaml -m llama-3.2-1b --gpu 8GiB | grep -A2 "cannot tell"
echo "== quantised and shared: an option that the command has, for the GPUs that there are"
sed -i 's/device_map="auto"/quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")/' train.py
echo "torchrun --nproc_per_node 4 train.py" >go.sh && what="not known" look go.sh
echo "== only the optimizer is on the host"
mkdir -p small/proc && sed 's/^MemAvailable.*/MemAvailable: 1000000 kB/' fixtures/check/machine/proc/meminfo >small/proc/meminfo
export PLIMSOLL_ROOT=small
sed -i 's/, quantization_config=.*)/)/' train.py && echo "deepspeed --num_gpus 1 train.py" >go.sh
what="^[A-Za-z ]*offload" && look go.sh
