# What is not predicted of images is not multiplied by a plan, unless the user asks for it.
cat >vision.yaml <<'YAML'
base_model: PaddlePaddle/PaddleOCR-VL
processor_type: AutoProcessor
sequence_len: 2048
pad_to_sequence_len: false
micro_batch_size: 1
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true
attn_implementation: flash_attention_2
YAML
said() { sed -n '/memory of images/,/checkpoint=off/p; /^now:/,/^times/p; /^setting/,/^$/p'; }
echo "== images: neither a larger micro batch nor fewer checkpoints"
$PLIMSOLL plan vision.yaml --gpu 80GiB | said
echo "== unless the user asks for it"
$PLIMSOLL plan vision.yaml --gpu 80GiB --fix checkpoint=off | said
echo "== the same model with texts"
sed -i /processor_type/d vision.yaml
$PLIMSOLL plan vision.yaml --gpu 80GiB | said
(
part data
cat >train.yaml <<'YAML'
model: Qwen/Qwen3.5-0.8B
train_dataset: data/mixed.yaml
micro_batch_size: 1
cutoff_len: 1024
YAML
mkdir data
echo '{"messages": [{"role": "user", "content": [{"type": "image_url", "value": "1.jpg"}]}]}' >data/mixed.jsonl
printf 'mixed:\n  path: data/mixed.jsonl\n  source: local\n' >data/mixed.yaml
echo "== data with images, which the description names"
$PLIMSOLL plan train.yaml --gpu 80GiB | said | head -2
echo "== data that are images and texts themselves"
sed -i s/mixed.yaml/mixed.jsonl/ train.yaml
$PLIMSOLL plan train.yaml --gpu 80GiB | said | head -2
echo "== data without images"
echo '{"messages": [{"role": "user", "content": [{"type": "text", "value": "1.jpg"}]}]}' >data/mixed.jsonl
$PLIMSOLL plan train.yaml --gpu 80GiB | said | head -2
)
(
part script
cat >train.py <<'PYTHON'
from transformers import AutoProcessor
from trl import SFTConfig, SFTTrainer
processor = AutoProcessor.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
args = SFTConfig(output_dir="out", per_device_train_batch_size=1, gradient_accumulation_steps=4, bf16=True, max_length=1024)
SFTTrainer(model="Qwen/Qwen2.5-VL-3B-Instruct", args=args, processing_class=processor).train()
PYTHON
$PLIMSOLL plan train.py --gpu 80GiB | said
)
true
