# torchtune's quantisation-aware training: the plan counts the rounded copies, offers no adapters, which are another recipe,
# and its command says the same.
cat >full.yaml <<'END'
model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 2048
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
quantizer:
  _component_: torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer
  groupsize: 256
fake_quant_after_n_steps: 1000
batch_size: 2
gradient_accumulation_steps: 1
dtype: bf16
enable_activation_checkpointing: True
END
show() { grep -E "^[a-z0-9.-]+, bf16|^note: (the loss|lay|quant|full|[a-z.:0-9]* *(lora_rank|quant))|^now|^planned|allow|^plimsoll estimate" -A1 | grep -v ^--$; }
for world in 1 8; do
  echo "== $world"
  $PLIMSOLL plan full.yaml --gpu 80GiB --world $world | show
done
echo "== with the loss that the note names"
sed 's/torchtune.modules.loss.Linear/torch.nn./' full.yaml >whole.yaml
$PLIMSOLL plan whole.yaml --gpu 80GiB | grep ^now
echo "== without"
sed '/^quantizer/,/^fake/d' full.yaml >plain.yaml
$PLIMSOLL plan plain.yaml --gpu 80GiB | show
echo "== with adapters"
sed 's/llama3_1.llama/llama3_1.lora_llama/; s/^model:/&\n  lora_attn_modules: [q_proj, v_proj]\n  lora_rank: 8/; /^fake/d' full.yaml >lora.yaml
$PLIMSOLL plan lora.yaml --gpu 24GiB | show
echo "== another quantizer"
sed 's/Int8DynActInt4WeightQAT/Float8ActInt4WeightQAT/' full.yaml >other.yaml
$PLIMSOLL plan other.yaml --gpu 80GiB | grep -A3 quantizer
