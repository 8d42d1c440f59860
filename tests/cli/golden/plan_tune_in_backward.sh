# torchtune on several GPUs: optimizer_in_bwd steps once the gradients of a layer are reduced; activations go to the host.
recipe="# tune run --nproc_per_node 4 full_finetune_distributed --config run.yaml
tokenizer:
  _component_: torchtune.models.qwen2.qwen2_tokenizer
  max_seq_len: 1024
model:
  _component_: torchtune.models.qwen2.qwen2_0_5b
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: /tmp/Qwen2-0.5B-Instruct
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 1
gradient_accumulation_steps: 1
clip_grad_norm: null
enable_activation_checkpointing: True
dtype: bf16"
show() { $PLIMSOLL plan run.yaml --gpu 24GiB 2>&1 | sed -n '/^note/,/^planned/p; /^gradients/p; /^optimizer /p; /^plimsoll estimate/p'; }
(
part in-backward
printf '%s\noptimizer_in_bwd: True\n' "$recipe" > run.yaml
show
)
(
part not-in-backward
printf '%s\n' "$recipe" > run.yaml
show
)
(
part beside-offload
printf '%s\noptimizer_in_bwd: True\nfsdp_cpu_offload: True\n' "$recipe" > run.yaml
show
)
(
part offloaded-activations
printf '%s\nenable_activation_offloading: True\n' "$recipe" > run.yaml
show
)
