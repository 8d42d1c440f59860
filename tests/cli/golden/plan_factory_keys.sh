# LLaMA-Factory refuses keys that it does not have. A field of Trainer that newer transformers lacks decides the release; where
# that is fixed, the run stops. What v1 accumulates follows from global_batch_size.
export HF_HOME=nowhere PLIMSOLL_NVML=none
cat >sft.yaml <<'Y'
model_name_or_path: Qwen/Qwen2.5-0.5B
stage: sft
do_train: true
finetuning_type: full
cutoff_len: 512
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
fsdp: full_shard
fsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer
Y
say() { $PLIMSOLL plan sft.yaml --gpu 24GiB --world 2 --try micro_batch=1 "$@" | grep -A3 "fsdp_transformer\|^assumes" | sed '/^--/d;/^note: not/,$d'; }
echo "== any release" && say
echo "== a range" && echo 'transformers>=4.55,<=5.8' >requirements.txt && say
echo "== one release" && echo 'transformers==5.8.0' >requirements.txt && say
$PLIMSOLL check sft.yaml --gpu 24GiB --world 2 | grep -A3 "WOULD FAIL"
rm requirements.txt

cat >v1.yaml <<'Y'
model: Qwen/Qwen3-0.6B
model_class: llm
dist_config:
  name: fsdp2
train_dataset: data.yaml
micro_batch_size: 8
cutoff_len: 2048
kernel_config:
  name: auto
Y
echo "== v1" && $PLIMSOLL plan v1.yaml --gpu 24GiB --world 2 | sed -n '/^to do by hand/,/^2/p'

# Samples that were stored earlier are taken as they are.
sed '/^fsdp/d' sft.yaml >stored.yaml && echo 'tokenized_path: stored' >>stored.yaml
echo "== stored samples" && $PLIMSOLL plan stored.yaml --gpu 24GiB | grep -A2 "note: tokenized_path"

# Megatron shards the optimizer without DeepSpeed; its usual precision is predicted.
sed '/^fsdp/d' sft.yaml >megatron.yaml && printf 'tensor_model_parallel_size: 1\nuse_distributed_optimizer: true\nmixed_precision: bf16_mixed\n' >>megatron.yaml
echo "== Megatron Bridge" && $PLIMSOLL plan megatron.yaml --gpu 24GiB --world 2 | grep -c "DeepSpeed\|mixed_precision"

# With Ray, llamafactory-cli starts no torchrun, and sets no allocator.
sed '/^fsdp/d' sft.yaml >ray.yaml && echo 'ray_num_workers: 2' >>ray.yaml
echo "== Ray" && $PLIMSOLL plan ray.yaml --gpu 24GiB | grep "GPUs with\|llamafactory-cli"

# fp8 comes beside bf16: a DeepSpeed file without fp16 agrees with it, and one with fp16 does not.
mkdir ds && sed '/^fsdp/d' sft.yaml >fp8.yaml && printf 'fp8: true\ndeepspeed: ds/ds.json\n' >>fp8.yaml
for fp16 in false true; do
  echo '{"fp16": {"enabled": '$fp16'}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}' >ds/ds.json
  echo "== fp8 with fp16 $fp16"
  $PLIMSOLL plan fp8.yaml --gpu 24GiB | grep "fp16\|fp8"
  $PLIMSOLL check fp8.yaml --gpu 24GiB | grep "WOULD FAIL\|READY"
done
