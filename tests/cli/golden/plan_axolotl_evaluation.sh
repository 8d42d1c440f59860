# Logits of evaluation: in 16 bits, in float32 and their log_softmax. Liger-Kernel's fused loss works only in training, Cut Cross
# Entropy's plugin in both.
base="base_model: Qwen/Qwen2.5-0.5B
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true
val_set_size: 0.1
evals_per_epoch: 1"
show() { $PLIMSOLL plan run.yaml --gpu 80GiB "$@" 2>&1 | grep -A4 -E "^note.*evaluation|^now|^planned" | grep -v -E "^(times|-|$)"; }
(
part larger-batch
printf '%s\neval_batch_size: 16\n' "$base" > run.yaml
show
)
(
part liger-of-the-plan
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n' "$base" > run.yaml
show --fix liger=on --fix micro_batch=2
)
(
part cut-cross-entropy-and-liger
printf '%s\neval_batch_size: 16\nplugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n  - axolotl.integrations.liger.LigerPlugin\nliger_rms_norm: true\n' "$base" > run.yaml
show
)
(
part cut-cross-entropy-off
printf '%s\neval_batch_size: 16\ncut_cross_entropy: false\nplugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_fused_linear_cross_entropy: true\n' "$base" > run.yaml
show
)
(
# Less than training now, more than what the plan needs.
part more-than-the-plan
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\neval_batch_size: 8\n' "${base/size: 2/size: 8}" > run.yaml
show --fix chunked_loss=0 --fix micro_batch=2
)
echo "== a planned batch whose evaluation does not fit is a step by hand"
printf 'model_name_or_path: Qwen/Qwen2.5-1.5B\ndataset_name: a\nbeta: 0.1\nmax_prompt_length: 512\nper_device_train_batch_size: 1\nper_device_eval_batch_size: 8\neval_strategy: steps\nmax_length: 2048\nbf16: true\n' > dpo.yaml
$PLIMSOLL plan dpo.yaml --gpu 40GiB | sed -n '/^to do/,/^$/p'
echo "== LLaMA-Factory keeps the policy's logits while the reference runs"
for stage in sft dpo; do
  printf 'model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: %s\ndo_train: true\nfinetuning_type: full\ndataset: a\ntemplate: qwen\ncutoff_len: 2048\nper_device_train_batch_size: 1\nper_device_eval_batch_size: 8\neval_strategy: steps\nbf16: true\n' $stage > run.yaml
  $PLIMSOLL plan run.yaml --gpu 16GiB | sed -n '/^note.*evaluation/,/^note/p' | grep logits
done
(
# The batch of evaluation follows the micro batch that the plan changes, and would not fit.
part follows-the-plan
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n' "${base/size: 2/size: 1}" > run.yaml
steps() { $PLIMSOLL plan run.yaml "$@" 2>&1 | sed -n '/^to do by hand/,/^changes to/p'; }
steps --gpu 8GiB --fix liger=on --fix micro_batch=4 --effective-batch 4
steps --gpu 8GiB --fix liger=on --fix micro_batch=1 --effective-batch 4
sed -i 's/2048/32768/' run.yaml
steps --gpu 12GiB --fix liger=on
)
