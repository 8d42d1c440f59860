# torchtune's recipes: which model they build, and arguments that another optimizer does not accept.
(
part torchtune
# torchtune's recipes: the builder function names the model, wherever its checkpoint will be.
cat >recipe.yaml <<'END'
model:
  _component_: torchtune.models.qwen2_5.lora_qwen2_5_7b_instruct
  lora_attn_modules: [q_proj, v_proj]
  lora_rank: 16
tokenizer:
  max_seq_len: 2048
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: ./models/Qwen2_5-7B-Instruct
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 4
gradient_accumulation_steps: 2
dtype: bf16
enable_activation_checkpointing: True
END
$PLIMSOLL plan recipe.yaml --gpu 24GiB | sed -n 1,3p
echo "== a function of any size: by the folder's name"
sed -i 's/lora_qwen2_5_7b_instruct/lora_qwen2/' recipe.yaml
sed -i 's|./models/Qwen2_5-7B-Instruct|./models/Qwen2.5-7B-Instruct/|' recipe.yaml
$PLIMSOLL plan recipe.yaml --gpu 24GiB | sed -n 1,4p
echo "== no place for a loss of one's own, nor for another way to share"
$PLIMSOLL plan recipe.yaml --gpu 24GiB | grep -E "chunked|strategy|^planned|^NOTHING"
echo "== none of both"
sed -i 's|./models/Qwen2.5-7B-Instruct/|./models/mine|' recipe.yaml
$PLIMSOLL plan recipe.yaml --gpu 24GiB
) 2>&1 || echo "exit $?"
(
part takes_out
# Arguments that another optimizer does not accept are removed, and undo restores them.
work=$(mktemp -d) && cd "$work" || exit 9
cat >tune.yaml <<'END'
model:
  _component_: torchtune.models.qwen2_5.lora_qwen2_5_0_5b
  lora_attn_modules: ['q_proj', 'v_proj']
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.qwen2_5.qwen2_5_tokenizer
  max_seq_len: 1024
checkpointer:
  checkpoint_dir: ./models/Qwen2.5-0.5B-Instruct
optimizer:
  _component_: torch.optim.AdamW
  fused: True  # the fast one
  lr: 2e-3
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 2
gradient_accumulation_steps: 8
enable_activation_checkpointing: True
dtype: bf16
END
cp tune.yaml before.yaml
$PLIMSOLL plan tune.yaml --model qwen2.5-0.5b --gpu 24GiB --fix optimizer=adamw-8bit --fix checkpoint=on --fix micro_batch=2 --fix alloc_conf=default --out plan.json |
  sed -n '/^changes/,/^$/p; /^@@/,$p'
$PLIMSOLL apply plan.json && sed -n "/^optimizer/,/^loss/p" tune.yaml
$PLIMSOLL undo && cmp tune.yaml before.yaml && echo "as before"
rm -rf "$work"
) 2>&1 || echo "exit $?"
