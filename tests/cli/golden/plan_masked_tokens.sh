# Losses that leave out masked tokens are named, and what those tokens then need less of.
labels() { tr '\n' ' ' | tr -s ' ' | grep -oE 'every token counts in the loss \([^)]*\)' || echo none; }
(
part masks
cat >recipe.yaml <<'YAML'
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
tokenizer:
  max_seq_len: 2048
optimizer:
  _component_: torch.optim.AdamW
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
dataset:
  _component_: torchtune.datasets.chat_dataset
batch_size: 2
gradient_accumulation_steps: 1
dtype: bf16
quantizer:
  groupsize: 16
YAML
echo "== torchtune"
$PLIMSOLL plan recipe.yaml --gpu 80GiB | labels
sed 's/^  _component_: torchtune.modules.loss.*/&\n  mask_ignored_tokens: False/' recipe.yaml >all.yaml
$PLIMSOLL plan all.yaml --gpu 80GiB | labels
sed 's/LinearCrossEntropyLoss/CEWithChunkedOutputLoss/' recipe.yaml >listed.yaml
$PLIMSOLL plan listed.yaml --gpu 80GiB | labels
)
(
part trl
cat >train.py <<'PYTHON'
from trl import SFTConfig, SFTTrainer
args = SFTConfig(output_dir="out", per_device_train_batch_size=2, max_length=1024, bf16=True)
SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args).train()
PYTHON
echo "== TRL, then with Liger's loss"
$PLIMSOLL plan train.py --gpu 80GiB | labels
sed -i 's/bf16=True/bf16=True, use_liger_kernel=True/' train.py
$PLIMSOLL plan train.py --gpu 80GiB | labels
)
(
part cut
cat >cut.yaml <<'YAML'
base_model: Qwen/Qwen2.5-0.5B
sequence_len: 2048
micro_batch_size: 1
bf16: true
plugins:
  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin
YAML
echo "== Cut Cross Entropy"
$PLIMSOLL plan cut.yaml --gpu 80GiB | labels
)
true
