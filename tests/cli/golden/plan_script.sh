# A script as people write it: the model is a constant handed to from_pretrained, the batch a variable of main.
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
