# Quantised weights under FSDP and ZeRO: what is predicted, what is said, and what the frameworks refuse.
look() { "$PLIMSOLL" "$@" 2>&1 | grep -E "^(now|error|help)|4-bit|8-bit|quant_storage|embedding|one unit" | sed 's/, [0-9.]* m*s per step.*//'; }

axolotl() {
  cat >"$1" <<END
base_model: meta-llama/Llama-3.2-1B
adapter: $2
$3: true
lora_r: 8
lora_target_linear: true
sequence_len: 512
micro_batch_size: 1
gradient_accumulation_steps: 1
optimizer: adamw_torch
bf16: true
$4
END
}
fsdp2="fsdp_version: 2
fsdp_config:
  transformer_layer_cls_to_wrap: LlamaDecoderLayer"

echo "== Axolotl stores 4-bit weights in 16 bits, which can be sharded"
axolotl qlora.yaml qlora load_in_4bit "$fsdp2"
look plan qlora.yaml --gpu 24GiB --world 4
echo "== and shards 8-bit weights by patching PyTorch"
axolotl lora.yaml lora load_in_8bit "$fsdp2"
look plan lora.yaml --gpu 24GiB --world 4

echo "== with cpu_ram_efficient_loading, FSDP2 shards from the host; FSDP 1 loads the whole model to each GPU"
efficient="$fsdp2
  cpu_ram_efficient_loading: true"
axolotl large.yaml qlora load_in_4bit "$efficient"
sed -i 's/Llama-3.2-1B/Llama-3.1-70B/' large.yaml
loading() { "$PLIMSOLL" check "$1" --gpu 24GiB --world 8 2>&1 | grep -E "while loading|loading the model"; }
loading large.yaml
sed -i 's/fsdp_version: 2/fsdp_version: 1/' large.yaml
loading large.yaml

part "Trainer with bitsandbytes' default"
cat >train.py <<'END'
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from peft import LoraConfig, get_peft_model
bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", quantization_config=bits, dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
args = TrainingArguments(per_device_train_batch_size=1, bf16=True, fsdp="full_shard auto_wrap",
                         fsdp_config={"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]})
Trainer(model=model, args=args, train_dataset=data).train()
END
look plan train.py --seq 512 --gpu 24GiB --world 4
echo "== and with 16 bits"
sed -i 's/quant_type="nf4"/quant_type="nf4", bnb_4bit_quant_storage=torch.bfloat16/' train.py
look plan train.py --seq 512 --gpu 24GiB --world 4

echo "== what no framework does"
with="--model llama-3.2-1b --seq 512 --lora-rank 8 --amp bf16 --world 4 --gpu 24GiB"
look estimate $with --weights int8 --strategy fsdp2
look estimate $with --weights nf4 --strategy zero3
