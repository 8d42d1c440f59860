# Typical scripts: constants and variables, and a configuration that a script opens.
(
part script
# A typical script: the model is a constant passed to from_pretrained, the batch a variable of main.
mkdir project && cd project || exit 9
cat > train.py <<'EOF'
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL_NAME = "qwen2.5-0.5b"


def main():
    batch_size = 64  # per step
    gradient_accumulation_steps = 1
    max_length = 1024
    tokenizer = AutoTokenizer.from_pretrained(MODEL_NAME)
    model = AutoModelForCausalLM.from_pretrained(MODEL_NAME, dtype=torch.bfloat16)
    train(model, batch_size, gradient_accumulation_steps)


main()
EOF
$PLIMSOLL plan train.py --gpu 24GiB --out ../plan.json | grep -E "^(now:|planned|micro|accum|.*by hand)"
$PLIMSOLL apply ../plan.json --dry-run | grep -E "^[-+]"
sed -i 's/^main()/def tune():\n    batch_size = 64\n\n\nmain()/' train.py
$PLIMSOLL plan train.py --gpu 24GiB | sed -n '/^to do by hand/,/^changes to/p'
echo 'other = AutoModelForCausalLM.from_pretrained("llama-3.2-1b")' >> train.py
$PLIMSOLL plan train.py --gpu 24GiB 2>&1
) 2>&1 || echo "exit $?"
(
part script_reads_yaml
# A configuration that a script opens is read with it, including lists; a cached loss is kept.
mkdir p && cd p || exit 9
cat >config.yaml <<'END'
model: {name: llama-3.2-1b}
lora: {r: 16, target_modules: [q_proj, v_proj]}
training: {per_device_train_batch_size: 4, gradient_accumulation_steps: 8, bf16: true}
data: {max_length: 1024}
END
cat >train.py <<'END'
cfg = yaml.safe_load(open(sys.argv[1] if len(sys.argv) > 1 else "config.yaml"))
model = AutoModelForCausalLM.from_pretrained(cfg["model"]["name"], torch_dtype=torch.bfloat16)
lora = LoraConfig(r=cfg["lora"]["r"], target_modules=cfg["lora"]["target_modules"])
args = TrainingArguments(**cfg["training"])
END
$PLIMSOLL plan train.py --gpu 24GiB | head -4
cat >cached.py <<'END'
model = SentenceTransformer("sentence-transformers/all-mpnet-base-v2")
loss = CachedMultipleNegativesRankingLoss(model, mini_batch_size=64)
args = SentenceTransformerTrainingArguments("o", per_device_train_batch_size=256, fp16=True)
END
$PLIMSOLL plan cached.py --gpu 24GiB --seq 128 | grep "at a time"
) 2>&1 || echo "exit $?"
