# A value that cannot be had is named, with the setting that it does not go with, or the reason; a batch that does not
# divide is another thing.
cat > train.py <<'EOF'
from trl import SFTConfig, SFTTrainer
args = SFTConfig(max_length=1024, per_device_train_batch_size=4, gradient_accumulation_steps=4, bf16=True)
SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args).train()
EOF
plan() { $PLIMSOLL plan "$@" 2>&1 | head -2; }
plan train.py --gpu 24GiB --fix liger=on
plan train.py --gpu 24GiB --fix liger=on --fix chunked_loss=off | head -1
plan train.py --gpu 24GiB --fix liger=on --fix chunked_loss=512
plan -m bert-base-uncased --gpu 24GiB -b 2 --fix liger=on
plan -m gpt2 --gpu 24GiB -b 2 -a 8 --fix micro_batch=3
