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
echo "== packed evaluation has rows as training, whatever eval_batch_size says"
adapters="adapter: lora
lora_r: 8
lora_target_linear: true
sample_packing: true
attn_implementation: flash_attention_2"
check() { $PLIMSOLL check "$@" 2>&1 | grep -A6 -E "evaluation (does|is)"; }
(
part packed
printf '%s\n%s\neval_batch_size: 64\n' "$base" "$adapters" > run.yaml
$PLIMSOLL plan run.yaml --gpu 12GiB --fix liger=on --fix micro_batch=4 --effective-batch 4 > plan.txt
grep -A3 "^note: .*eval" plan.txt
sed -n '/^to do by hand/,/^changes to/p' plan.txt
)
(
part packed-liger-on
printf '%s\n%s\neval_batch_size: 1\n%s' "$base" "$adapters" 'plugins: [axolotl.integrations.liger.LigerPlugin]
liger_fused_linear_cross_entropy: true
liger_rms_norm: true
' > run.yaml
check run.yaml --gpu 6GiB
echo "-- unless it is off; then every sequence is padded to sequence_len"
printf 'eval_sample_packing: false\neval_sequence_len: 1024\n' >> run.yaml
sed -i 's/eval_batch_size: 1/eval_batch_size: 2/' run.yaml
check run.yaml --gpu 6GiB
echo "-- or to what is longer"
sed -i 's/^eval_sequence_len.*/eval_sequence_len: 3000/; s/eval_sample_packing: false/eval_sample_packing: true/; s/micro_batch_size: 2/micro_batch_size: 1/' run.yaml
check run.yaml --gpu 6GiB
echo "-- not packed at all"
sed -i '/^sample_packing/d' run.yaml
check run.yaml --gpu 6GiB
)
echo "== rows say what their evaluation needs"
rows() { $PLIMSOLL plan "$@" 2>&1 | sed -n '/^the plan (row 1)/,/^$/p' | grep -v "^to use"; }
(
part fallbacks
printf '%s\n%s\n' "$base" "$adapters" > run.yaml
rows run.yaml --gpu 24GiB --effective-batch 8
$PLIMSOLL plan run.yaml --gpu 24GiB --effective-batch 8 --json | python3 -c '
import json, sys
for x in json.load(sys.stdin)["ladder"]: print(x["estimate"]["needed_bytes"], x["evaluation_bytes"])'
echo "-- of several GPUs"
$PLIMSOLL plan run.yaml --gpu 8GiB,24GiB --effective-batch 8 --fix chunked_loss=off 2>&1 | grep -A5 "^GPU"
)
(
part factory
printf 'model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: a\ntemplate: qwen\ncutoff_len: 2048\nper_device_train_batch_size: 4\nper_device_eval_batch_size: 2\neval_strategy: steps\nval_size: 0.1\nbf16: true\npacking: true\n' > run.yaml
rows run.yaml --gpu 16GiB
)
echo "== Trainer and SFTTrainer ask Liger for no logits where only the loss is wanted"
printf 'from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\nmodel = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")\nargs = TrainingArguments(output_dir="o", per_device_train_batch_size=4, per_device_eval_batch_size=8, eval_strategy="steps", bf16=True, use_liger_kernel=True)\nTrainer(model=model, args=args).train()\n' > hf.py
sed 's/TrainingArguments/SFTConfig/g; s/Trainer(/SFTTrainer(/; s/^from.*/from transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer/' hf.py > trl.py
sed 's/model=model,/model=model, compute_metrics=f,/' hf.py > metrics.py
logits() {
  echo "-- $*"
  $PLIMSOLL plan "$@" --seq 2048 --gpu 40GiB --fix micro_batch=4 2>&1 | grep -A3 "^note.*evaluation is" || echo "none"
}
logits hf.py --versions transformers=5.15
logits hf.py --versions transformers=5.14
logits metrics.py --versions transformers=5.15
logits trl.py --versions transformers=5.14,trl=0.29
logits trl.py --versions transformers=5.14,trl=0.28
