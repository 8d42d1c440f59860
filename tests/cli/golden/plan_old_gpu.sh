# Flash attention on a GPU that has no kernel for it: the plan replaces it.
cat >train.yaml <<'END'
base_model: HuggingFaceTB/SmolLM2-135M
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
sequence_len: 512
micro_batch_size: 2
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
fp16: true
flash_attention: true
END
"$PLIMSOLL" plan train.yaml --gpu t4 --fix micro_batch=2 --fix checkpoint=off --fix liger=off --fix alloc_conf=unchanged
"$PLIMSOLL" plan train.yaml --gpu t4 --fix attention=flash
