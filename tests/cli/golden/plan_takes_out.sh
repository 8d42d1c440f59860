# What another optimizer does not know is taken out, and comes back with undo.
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
  checkpoint_dir: /tmp/Qwen2.5-0.5B-Instruct
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
