# Checkpointing turned on for adapters says use_reentrant=False with it: in a script, in a file, on a command
# line; check has nothing to warn of then.
cat >base.py <<'S'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from peft import LoraConfig, get_peft_model
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", torch_dtype="bfloat16")
model = get_peft_model(model, LoraConfig(r=16))
S
cp base.py train.py && cat >>train.py <<'S'
args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=8,
    gradient_checkpointing=False,
    bf16=True,
)
Trainer(model, args).train()
S
show() {
  $PLIMSOLL plan "$@" --gpu 16GiB --seq 2048 --fix checkpoint=on --out plan.json >/dev/null
  $PLIMSOLL apply plan.json --dry-run 2>/dev/null | grep "^[-+].*\(checkpointing\|reentrant\)"
  $PLIMSOLL apply plan.json --done chunked_loss --done liger --done alloc_conf >/dev/null
  $PLIMSOLL check "$@" --gpu 16GiB | grep -i "reentrant\|fight"
}
show train.py
cp base.py run.py && cat >>run.py <<'S'
args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
Trainer(model, args).train()
S
cat >run.sh <<'S'
python run.py --output_dir out --per_device_train_batch_size 8 --bf16 true
S
show run.sh
cat >args.yaml <<'S'
output_dir: out
per_device_train_batch_size: 8
bf16: true
S
show run.py args.yaml
