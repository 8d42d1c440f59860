# A script names FSDP's file: its version and its checkpointing count, and go with it when the plan shares otherwise.
mkdir conf
cat > t.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=4, bf16=True, fsdp="full_shard auto_wrap",
                         fsdp_config="./conf/fsdp.json")
Trainer(model=model, args=args, train_dataset=ds).train()
END
echo "torchrun --nproc_per_node 8 t.py" > run.sh
held="-s 1024 --gpu 24GiB --fix strategy=zero3 --fix offload=none --fix micro_batch=4 --fix checkpoint=on --fix liger=off --fix chunked_loss=0 --fix alloc_conf=default"
for is in true false; do
  echo "== $is"
  echo "{\"version\": 2, \"activation_checkpointing\": $is}" > conf/fsdp.json
  $PLIMSOLL plan run.sh $held --out plan.json | grep -E "^(files:|note: fsdp|now:|planned|checkpoint  |strategy)|^[+]  .*(True|=)"
  $PLIMSOLL apply plan.json >/dev/null
  $PLIMSOLL plan run.sh $held | grep -E "^(now:|planned)"
  cat conf/fsdp.json
  $PLIMSOLL undo >/dev/null
done
