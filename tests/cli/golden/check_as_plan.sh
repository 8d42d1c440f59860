# Plan and check agree on the same files: the same memory, the same assumptions and the same refusals.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
cat >tp.sh <<'S'
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 64 --seq-length 512
S
{ cat fixtures/small/train.yaml && echo 'deepspeed: ds.json'; } >zero.yaml
echo '{"zero_optimization": {"stage": 3}}' >ds.json
for f in tp.sh zero.yaml; do
  $PLIMSOLL plan $f -m llama-3.2-1b --gpu 80GiB 2>&1 | head -2
  $PLIMSOLL check $f -m llama-3.2-1b --gpu 80GiB | grep -A1 "cannot tell\|assuming 8"
done
both() {
  $PLIMSOLL plan "$@" --gpu 80GiB --try micro_batch=1 | grep "^now:" | cut -d, -f1
  $PLIMSOLL check "$@" --gpu 80GiB | grep "needs\|fits"
}
both fixtures/small/train.yaml && both zero.yaml --world 2
cat >trl.sh <<'S'
trl sft --model_name_or_path Qwen/Qwen2.5-7B --dataset_name d --use_peft --lora_r 32 --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --max_length 4096 --bf16 --output_dir o
S
both trl.sh

# What plan says of the way it read the files, check says too; a launch file that is not read leaves the verdict open.
notes() {
  cat >tune.yaml <<'Y'
#   tune run --nproc_per_node 4 full_finetune_distributed --config tune.yaml
model: {_component_: torchtune.models.llama3_2.llama3_2_1b}
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, path: x, max_seq_len: 512}
optimizer: {_component_: torch.optim.AdamW, lr: 2e-5}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
batch_size: 1
epochs: 1
dtype: bf16
Y
  cat >factory.yaml <<'Y'
# accelerate launch --config_file fsdp.yaml src/train.py factory.yaml
model_name_or_path: meta-llama/Llama-3.2-1B
stage: sft
do_train: true
finetuning_type: full
dataset: d
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 4
bf16: true
Y
  for f in tune.yaml factory.yaml; do
    $PLIMSOLL plan $f --gpu 8GiB | grep -E -A2 "in a comment|^now" | grep -v "^$\|^--"
    $PLIMSOLL check $f --gpu 8GiB | grep -E -A2 "in a comment|not fit|NOT FIT|READY" | grep -v "^$\|^--"
  done
}
notes
