# torchtune's recipes with two models: DPO, whose reference is the model without adapters or a second one, and distillation.
cat >pairs.yaml <<'END'
model:
  _component_: torchtune.models.qwen2_5.lora_qwen2_5_0_5b
  lora_attn_modules: [q_proj, v_proj]
  lora_rank: 8
tokenizer:
  max_seq_len: 1024
checkpointer:
  checkpoint_dir: ./models/Qwen2.5-0.5B-Instruct
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.rlhf.loss.DPOLoss
batch_size: 2
gradient_accumulation_steps: 2
dtype: bf16
enable_activation_checkpointing: True
END
$PLIMSOLL plan pairs.yaml --gpu 24GiB | grep -E "^note|^now|^planned|^plimsoll estimate"
echo "== a reference of its own"
sed -i '/lora_/d; s/^model:/model:\n  _component_: torchtune.models.qwen2_5.qwen2_5_0_5b/' pairs.yaml
printf 'ref_checkpointer:\n  checkpoint_dir: ./models/Qwen2.5-0.5B-Instruct\n' >>pairs.yaml
$PLIMSOLL plan pairs.yaml --gpu 24GiB | grep -E "^note: DPO|^now"
echo "== on two GPUs"
$PLIMSOLL plan pairs.yaml --gpu 24GiB --world 2 | grep -E "^note: DPO|^now|^unverified|^plimsoll estimate" -A1
echo "== distillation"
sed 's/torchtune.rlhf.loss.DPOLoss/torchtune.modules.loss.CEWithChunkedOutputLoss/; /^ref_/,$d' pairs.yaml >kd.yaml
cat >>kd.yaml <<'END'
teacher_model:
  _component_: torchtune.models.qwen2_5.qwen2_5_1_5b
kd_loss:
  _component_: torchtune.modules.loss.ForwardKLWithChunkedOutputLoss
kd_ratio: 0.5
END
$PLIMSOLL plan kd.yaml --gpu 24GiB | grep -E "^note: dist|^now|^plimsoll estimate"
echo "== beside a key that the recipe does not read"
echo 'enable_activation_offloading: False' >>kd.yaml
$PLIMSOLL plan kd.yaml --gpu 24GiB --try micro_batch=1 | grep -E '^[-+][a-z]|yourself'
sed -i '$d' kd.yaml
echo "== a loss that is not modelled, and a teacher with other words"
sed 's/ForwardKL/ReverseKL/' kd.yaml >other.yaml
$PLIMSOLL plan other.yaml --gpu 24GiB
$PLIMSOLL plan kd.yaml --gpu 24GiB --teacher gpt2
