# torchtune's loss in eight chunks keeps what backward needs of each: less than all logits at once, more than recomputed
# chunks. The loss of the recipe is predicted.
of() { grep -E '^ *l *logits|^unverified: torchtune' | tr -s ' ' | grep . || echo 'no logits at the peak'; }
for loss in full eighths-listed eighths chunked; do
  echo "== $loss"
  $PLIMSOLL estimate -m llama-3.1-8b --lora-rank 8 -b 1 -s 8192 --checkpoint --loss $loss | of
done
cat > recipe.yaml <<'YAML'
model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_attn_modules: [q_proj, v_proj]
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 8192
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 1
gradient_accumulation_steps: 8
dtype: bf16
enable_activation_checkpointing: True
YAML
for loss in LinearCrossEntropyLoss CEWithChunkedOutputLoss; do
  echo "== $loss"
  sed -i "s/loss\.[A-Z].*/loss.$loss/" recipe.yaml
  $PLIMSOLL plan recipe.yaml --gpu 24GiB | grep -E '^(now:|planned|NOTHING|NO SAFE|logits|note: the loss)' | tr -s ' '
done
