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
