# What the recipes of torchtune and the trainer of LLaMA-Factory v1 do with the settings of their files. How many candidates
# are run is no part of it.
{
(
part offloaded_activations
# torchtune offloads what the model saves, but not what its head and its loss save.
for offload in none activations; do
  $PLIMSOLL estimate --model qwen2-0.5b --batch 8 --seq 1024 --dtype bf16 --no-clip --loss eighths --checkpoint --offload $offload | grep -E '^ (a|l) '
done
# A function of its own that offloads checkpoints needs a gradient to the input: adapters have gradients.
$PLIMSOLL estimate --model qwen2-0.5b --batch 2 --seq 512 --dtype bf16 --lora-rank 8 --no-clip --loss eighths-listed --teacher qwen2-1.5b --offload checkpoints | grep -E '^ (G|O) '
)
(
part sharded
cat > full.yaml <<'YAML'
# tune run --nproc_per_node 4 full_finetune_distributed --config full.yaml
model:
  _component_: torchtune.models.qwen3.qwen3_8b_instruct
tokenizer:
  max_seq_len: 2048
dataset:
  packed: False
batch_size: 2
gradient_accumulation_steps: 8
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
dtype: bf16
enable_activation_checkpointing: True
YAML
echo "== offload of parameters is written"
$PLIMSOLL plan full.yaml --gpu 24GiB | grep -E '^(note|planned|offload|[0-9]\. |[-+][^-+]|     tune)'
echo "== ac_mode turns checkpoints off, or replaces them where they are off"
printf "ac_mode: 'selective'\nac_option: 2\n" >> full.yaml
$PLIMSOLL plan full.yaml --gpu 80GiB | grep -E -A3 'ac_mode|^now'
sed -i 's/^enable_activation_checkpointing: True/enable_activation_checkpointing: False/' full.yaml
$PLIMSOLL plan full.yaml --gpu 80GiB | grep -E 'ac_mode|select|^now'
cat > dpo.yaml <<'YAML'
# tune run --nproc_per_node 2 lora_dpo_distributed --config dpo.yaml
model:
  _component_: torchtune.models.llama3_2.lora_llama3_2_1b
  lora_attn_modules: ['q_proj', 'v_proj']
  lora_rank: 8
tokenizer:
  max_seq_len: 512
batch_size: 2
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.rlhf.loss.DPOLoss
dtype: bf16
enable_activation_checkpointing: True
YAML
echo "== without that command, the recipe is that of the method"
sed 1d dpo.yaml > bare.yaml
$PLIMSOLL plan bare.yaml --gpu 24GiB --world 2 | grep -E '^     tune'
echo "== the comment says first how the teacher was trained"
sed -e '1s/.*/# tune run --nproc_per_node 8 lora_finetune_distributed --config teacher\n# tune run --nproc_per_node 2 knowledge_distillation_distributed --config llama\/student/' -e '/^loss:/,$d' dpo.yaml > student.yaml
cat >> student.yaml <<'YAML'
teacher_model:
  _component_: torchtune.models.llama3_2.llama3_2_3b
loss:
  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss
kd_loss:
  _component_: torchtune.modules.loss.ForwardKLWithChunkedOutputLoss
dtype: bf16
YAML
$PLIMSOLL plan student.yaml --gpu 24GiB | grep -E '^     tune|in a comment'
echo "== the command for DPO on several GPUs"
$PLIMSOLL plan dpo.yaml --gpu 24GiB | grep -E '^(planned|plimsoll)'
$PLIMSOLL estimate $($PLIMSOLL plan dpo.yaml --gpu 24GiB | grep -E '^plimsoll estimate' | cut -d' ' -f3-) | grep -E '^FITS'
)
(
part attention
cat > gemma.yaml <<'YAML'
# tune run lora_finetune_single_device --config gemma.yaml
model:
  _component_: torchtune.models.gemma2.lora_gemma2_2b
  lora_attn_modules: ['q_proj', 'v_proj']
  lora_rank: 8
tokenizer:
  max_seq_len: 2048
batch_size: 1
optimizer:
  _component_: torch.optim.AdamW
  fused: True
dtype: bf16
YAML
$PLIMSOLL plan gemma.yaml --gpu 80GiB | grep -E -A2 'attention|^now|^plimsoll'
)
(
part version_1
cat > v1.yaml <<'YAML'
model: Qwen/Qwen3-0.6B
model_class: llm
kernel_config:
  name: auto
dist_config:
  name: fsdp2
optim_config:
  name: muon
train_dataset: data/v1_sft_demo.yaml
micro_batch_size: 2
cutoff_len: 1024
YAML
echo "== logits are scored twice, and the plan keeps them"
$PLIMSOLL plan v1.yaml --gpu 24GiB | grep -E 'kernel|outputs|padding|llamafactory-cli sets|supervised|^now|^optimizer|^logits|chunked'
echo "== Liger's modules count, and the logits stay, because v1 leaves out the fused loss"
sed 's/name: auto/name: liger_kernel/' v1.yaml > liger.yaml
$PLIMSOLL plan liger.yaml --gpu 24GiB | grep -E -A2 'Liger|^now|^activations|^logits'
echo "== double quantisation is its default"
printf 'peft_config:\n  name: lora\n  r: 8\nquant_config:\n  name: bnb\n  quantization_bit: 4\n' | cat v1.yaml - > quantised.yaml
$PLIMSOLL plan quantised.yaml --gpu 24GiB | head -1
echo '  double_quantization: false' >> quantised.yaml
$PLIMSOLL plan quantised.yaml --gpu 24GiB | head -1
echo "== FSDPTurbo"
sed -i 's/name: fsdp2/name: fsdpturbo\n  ep_size: 2/; s/Qwen3-0.6B/Qwen3-30B-A3B/; s/name: muon/name: null/' v1.yaml
printf 'init_config:\n  name: init_on_meta\n' >> v1.yaml
$PLIMSOLL plan v1.yaml --gpu 80GiB | grep -E 'fsdpturbo|ep_size|not modelled|^now|^[0-9]\. |[-+] *offload|llamafactory-cli'
sed -i 's/ep_size: 2/ep_size: 16/' v1.yaml
$PLIMSOLL plan v1.yaml --gpu 80GiB | grep -E 'assuming 16|NPROC'
)
(
part bridge
cat > bridge.yaml <<'YAML'
model_name_or_path: meta-llama/Llama-3.2-1B-Instruct
stage: sft
do_train: true
finetuning_type: lora
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
tensor_model_parallel_size: 1
use_distributed_optimizer: true
mixed_precision: bf16_mixed
YAML
$PLIMSOLL plan bridge.yaml --gpu 24GiB | grep -E 'llamafactory-cli|fsdp2|zero3|zero1'
printf '[project]\ndependencies = ["transformers>=4.55,<=5.8", "trl>=0.18,<=0.24", "accelerate>=1.3,<=1.11"]\n' > pyproject.toml
$PLIMSOLL plan bridge.yaml --gpu 24GiB | grep -A1 'asks for'
)
(
part refused
factory='stage: sft
do_train: true
finetuning_type: full
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true'
echo "== a loss that needs all logits"
printf 'model_name_or_path: Qwen/Qwen2-1.5B-Instruct\nuse_dft_loss: true\n%s\n' "$factory" > lf.yaml
$PLIMSOLL plan lf.yaml --gpu 24GiB | grep -E -A1 'will not be|^planned|^setting|chunked|liger'
echo "== an optimizer that has no step on the host"
sed -i 's/use_dft_loss/use_adam_mini/' lf.yaml
$PLIMSOLL plan lf.yaml --gpu 24GiB | grep -E -A1 '^now|^NOTHING|^planned|offload'
echo "== weights that are packed in another way"
sed -i '/use_adam_mini/d; s/Qwen2-1.5B-Instruct/Qwen2-7B-Instruct-GPTQ-Int4/; s/finetuning_type: full/finetuning_type: lora/' lf.yaml
$PLIMSOLL plan lf.yaml --gpu 24GiB | grep -E 'quantis|zero3|fsdp2|^planned'
echo "== parameters trained by name keep the rest in the checkpoint's type"
cat > v1.yaml <<'YAML'
model: Qwen/Qwen3-4B
peft_config:
  name: freeze
  freeze_trainable_layers: 2
dist_config:
  name: fsdp2
train_dataset: data/v1_sft_demo.yaml
micro_batch_size: 1
cutoff_len: 512
YAML
$PLIMSOLL plan v1.yaml --gpu 24GiB | grep -E '^Qwen|^now|^weights'
)
(
part by_hand
cat > tune.yaml <<'YAML'
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
tokenizer:
  max_seq_len: 512
batch_size: 2
dataset_val:
  split: train[95%:]
batch_size_val: ${batch_size}
optimizer:
  _component_: bitsandbytes.optim.PagedAdamW
dtype: bf16
enable_activation_checkpointing: False
YAML
echo "== settings of two keys in torchtune's file"
$PLIMSOLL plan tune.yaml --gpu 80GiB --fix optimizer=adamw | sed -n '/^to do by hand/,/^$/p'
echo "== a batch for a validation that is turned off"
$PLIMSOLL plan tune.yaml --gpu 8GiB --fix micro_batch=1 | grep -E '^[-+]batch|^1\.|batch_size_val'
sed -i 's/^dataset_val/run_val_every_n_steps: 10\ndataset_val/' tune.yaml
$PLIMSOLL plan tune.yaml --gpu 8GiB --fix micro_batch=1 | grep -E '^[-+]batch|^1\.|batch_size_val'
)
(
part notes
sed 's/lora_finetune_single_device/lora_finetune_distributed/' > gemma.yaml <<'YAML'
# tune run lora_finetune_single_device --config gemma.yaml
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
tokenizer:
  max_seq_len: 512
batch_size: 1
optimizer:
  _component_: torch.optim.AdamW
dtype: bf16
YAML
echo "== only a recipe for one GPU says how many there are"
$PLIMSOLL plan gemma.yaml --gpu 24GiB | grep -c 'assuming one GPU'
sed -i 's/_distributed/_single_device/' gemma.yaml
$PLIMSOLL plan gemma.yaml --gpu 24GiB | grep -c 'assuming one GPU' || true
printf 'model_name_or_path: Qwen/Qwen3-VL-4B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: full\ncutoff_len: 512\nper_device_train_batch_size: 1\nbf16: true\n' > lf.yaml
echo "== a frozen tower"
$PLIMSOLL plan lf.yaml --gpu 141GiB | grep -A2 'is frozen'
echo 'freeze_vision_tower: false' >> lf.yaml
$PLIMSOLL plan lf.yaml --gpu 141GiB | grep -c 'is frozen' || true
)
} | sed -E 's/of [0-9]+ candidates/of N candidates/; s/smallest of [0-9]+/smallest of N/'
(
part attention-of-llama-factory
cat > gemma.yaml <<'YAML'
model_name_or_path: google/gemma-2-2b
stage: sft
do_train: true
finetuning_type: lora
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
YAML
echo "== gemma2 has eager attention by default"
$PLIMSOLL plan gemma.yaml --gpu 80GiB | grep -E -A1 'eager'
echo "== which a plan keeps, because sdpa has no soft cap"
echo 'flash_attn: disabled' >> gemma.yaml
$PLIMSOLL plan gemma.yaml --gpu 80GiB | grep -E 'flash_attn|^attention|^plimsoll' | cut -d' ' -f1-20
echo "== sdpa that the file asks for"
sed -i 's/disabled/sdpa/' gemma.yaml
$PLIMSOLL plan gemma.yaml --gpu 80GiB | grep -c eager
echo "== a kernel of the Hub"
sed -i 's/google.*/openai\/gpt-oss-20b/; /flash_attn/d' gemma.yaml
$PLIMSOLL plan gemma.yaml --gpu 80GiB | grep -E -A2 'FlashAttention-3'
)
