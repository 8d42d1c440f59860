# Under FSDP2, gradients that are reduced after every micro batch are never whole. accelerate does so if it is told to, and
# before 1.11 always.
say() {
  echo "== $*"
  $PLIMSOLL plan run.yaml --gpu 80GiB --world 8 "$@" 2>&1 | grep -E '^gradients|^now:|sync_each_batch'
}
file() {
  cat <<'EOF'
base_model: meta-llama/Llama-3.1-8B
micro_batch_size: 1
gradient_accumulation_steps: 4
sequence_len: 2048
bf16: true
optimizer: adamw_torch_fused
fsdp_version: 2
fsdp_config:
  reshard_after_forward: true
EOF
}
file > run.yaml
say
say --versions accelerate=1.10
say --versions accelerate=1.11
printf '%s\n' 'accelerator_config:' '  gradient_accumulation_kwargs:' '    sync_each_batch: true' >> run.yaml
say
