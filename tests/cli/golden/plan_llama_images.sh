# Llama models that see images: which are predicted, with what said about images, and which are refused.
(
part torchtune
cat >recipe.yaml <<'YAML'
model:
  _component_: torchtune.models.llama3_2_vision.llama3_2_vision_11b
  decoder_trainable: False
  encoder_trainable: True
  fusion_trainable: True
tokenizer:
  max_seq_len: 2048
optimizer:
  _component_: torch.optim.AdamW
batch_size: 1
gradient_accumulation_steps: 2
dtype: bf16
enable_activation_checkpointing: True
YAML
$PLIMSOLL plan recipe.yaml --gpu 80GiB
echo "== adapters"
sed -i -e 's/\.llama3_2_vision_11b/.lora_llama3_2_vision_11b/' -e 's/False/frozen/' -e 's/_trainable: True/_trainable: lora/' recipe.yaml
sed -i 's/^tokenizer/  lora_attn_modules: [q_proj, v_proj]\n  lora_rank: 8\n&/' recipe.yaml
$PLIMSOLL plan recipe.yaml --gpu 80GiB | sed -n '/^assumes/,/^now/p'
echo "== experts"
sed -i 's/llama3_2_vision.lora_llama3_2_vision_11b/llama4.lora_llama4_scout_17b_16e/' recipe.yaml
$PLIMSOLL plan recipe.yaml --gpu 80GiB --world 8 | grep -A1 "_component_:"
echo "== only what joins images and text has adapters"
sed -i -e 's/encoder_trainable: lora/encoder_trainable: frozen/' -e 's/decoder_trainable: frozen/decoder_trainable: lora/' recipe.yaml
$PLIMSOLL plan recipe.yaml --gpu 80GiB --world 8 | grep _trainable
) 2>&1 || echo "exit $?"
(
part linearised
cat >scout.yaml <<'YAML'
base_model: axolotl-quants/Llama-4-Scout-17B-16E-Linearized-bnb-nf4-bf16
llama4_linearized_experts: true
adapter: qlora
load_in_4bit: true
gradient_checkpointing: true
bf16: true
lora_r: 32
lora_target_modules: [self_attn.q_proj]
sequence_len: 4096
micro_batch_size: 1
gradient_accumulation_steps: 1
YAML
$PLIMSOLL plan scout.yaml --gpu 80GiB | sed -n '/^axolotl/,/^planned/p'
) 2>&1 || echo "exit $?"
(
part router
# peft takes the router of Llama 4 for an ordinary linear layer.
$PLIMSOLL estimate --model llama-4-scout-17b-16e --lora-rank 8 --lora-targets all-linear --batch 1 --seq 512
) 2>&1 || echo "exit $?"
