# Where a value is set, what it is computed from, and what else is computed from it.
(
part where_it_is
# If two places differ, both are named. For a computed value, its line and that of its source are named, and comments
# that are no longer true.
cat >dup.py <<'EOF'
from transformers import TrainingArguments, AutoModelForCausalLM
BATCH = 5 * 8
m = AutoModelForCausalLM.from_pretrained("gpt2-xl")
a = TrainingArguments("o", per_device_train_batch_size=BATCH, gradient_accumulation_steps=1, bf16=True)
EOF
$PLIMSOLL plan dup.py --gpu 24GiB --fix micro_batch=20 | grep -A3 "[0-9]. set micro_batch 20"
echo 'b = TrainingArguments("o2", per_device_train_batch_size=2, gradient_accumulation_steps=20, bf16=True)' >>dup.py
$PLIMSOLL plan dup.py --gpu 24GiB 2>&1
cat >train.yaml <<'EOF'
base_model: Qwen/Qwen2.5-1.5B
sequence_len: 1024
# 8 on each GPU
micro_batch_size: 8
gradient_accumulation_steps: 8   # 8*8*4 = 256, not 2048
num_epochs: 8 # 8
bf16: true
EOF
$PLIMSOLL plan train.yaml --gpu 80GiB --fix micro_batch=4 --out plan.json | sed -n '/^note: train.yaml/,$p' | sed '/^unverified/,$d'
$PLIMSOLL apply plan.json | grep -A1 "comment"
) 2>&1 || echo "exit $?"
(
part shared_root
# A value from which other settings are computed is not changed; the message names what would change with it.
work=$(mktemp -d) && cd "$work" || exit 9
cat >run.sh <<'END'
N=8
python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size $N \
  --gradient_accumulation_steps 2 --save_total_limit $N --learning_rate 1e-$N
END
$PLIMSOLL plan run.sh --gpu 8GiB --seq 1024 --fix micro_batch=4 | sed -n '/^to do by hand/,/^$/p'
rm -rf "$work"
) 2>&1 || echo "exit $?"
