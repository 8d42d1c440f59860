# FSDP turned on by Trainer, by accelerate and by a file of its own: what is float32, what stays whole, what counts.
(
part fsdp_of_trainer
# TrainingArguments(fsdp=...) is accelerate's FSDP2 by default, and so is Accelerator with its configuration; a manual
# loop is fully_shard of each layer. Gradients of accumulated batches stay whole.
held="-m qwen2.5-0.5b -s 512 --gpu 24GiB --world 4 --try checkpoint=off"
show() { grep -E '^(now:|weights|gradients|note|unverified)'; }
train() {
  cat > train.py <<END
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", per_device_train_batch_size=2, gradient_accumulation_steps=4, bf16=True,
                         fsdp="full_shard auto_wrap"$1)
Trainer(model=model, args=args).train()
END
  $PLIMSOLL plan train.py $held | show
}
echo "== version 2"
train ', fsdp_config={"version": 2}'
echo "== no version"
train
echo "== version 1"
train ', fsdp_config={"version": 1}'
echo "== Accelerator"
cat > loop.py <<'END'
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator(gradient_accumulation_steps=4)
loader = DataLoader(data, batch_size=2)
END
cp fixtures/accelerate_fsdp2.yaml accelerate.yaml
$PLIMSOLL plan loop.py accelerate.yaml $held -b 2 -a 4 | show
echo "== adapters under checkpoints of the model, for which the embedding needs a gradient, and of FSDP"
lora="-m mistral-7b -s 512 --gpu 80GiB --lora-rank 8 --try checkpoint=on -b 2 -a 1 --json"
$PLIMSOLL plan loop.py accelerate.yaml $lora --checkpoint | grep -m1 peak_allocated
echo '  fsdp_activation_checkpointing: true' >> accelerate.yaml
$PLIMSOLL plan loop.py accelerate.yaml $lora | grep -m1 peak_allocated
echo "== a loop of one's own"
$PLIMSOLL estimate -m qwen2.5-0.5b -b 2 -a 4 -s 512 --world 4 --strategy fsdp2 --amp bf16 --gpu 24GiB | grep -E '^FITS|weights|gradients'
echo "== not recorded"
$PLIMSOLL estimate -m qwen2.5-0.5b -b 2 -s 512 --loop trainer --world 4 --strategy fsdp2 --amp fp16 --loss chunked --gpu 24GiB | grep '^unverified: [af]'
$PLIMSOLL estimate -m qwen2.5-0.5b --loop trainer --world 4 --strategy fsdp2 --amp bf16 --reduce-dtype bf16
) 2>&1 || echo "exit $?"
(
part accelerate_fsdp
# FSDP through accelerate with mixed precision: trained parameters are float32, gradients are reduced in the compute type.
cat > train.yaml <<'END'
model_name_or_path: qwen2.5-0.5b
dtype: bfloat16
per_device_train_batch_size: 2
bf16: true
END
cp fixtures/accelerate_fsdp2.yaml accelerate.yaml
held="-s 512 --gpu 24GiB --try checkpoint=off"
show() { grep -E '^(now:|weights|gradients|optimizer|note)|^      '; }
echo "== Trainer"
$PLIMSOLL plan train.yaml accelerate.yaml $held | show
recipe="-m qwen2.5-0.5b -b 2 -s 512 --loop trainer --mask longest --world 4 --strategy fsdp2 --amp bf16"
$PLIMSOLL estimate $recipe --gpu 24GiB | grep -E '^FITS|weights|gradients|optimizer'
echo "== adapters"
echo 'lora_r: 16' >> train.yaml
$PLIMSOLL plan train.yaml accelerate.yaml $held | show
echo "== torchtune shards by itself"
cat > tune.yaml <<'END'
model: {_component_: torchtune.models.qwen2_5.qwen2_5_0_5b}
optimizer: {_component_: torch.optim.AdamW}
tokenizer: {max_seq_len: 512}
batch_size: 2
dtype: bf16
fsdp_cpu_offload: false
END
$PLIMSOLL plan tune.yaml -m qwen2.5-0.5b --world 4 --strategy fsdp2 $held | show
) 2>&1 || echo "exit $?"
(
part fsdp_file
# A script refers to FSDP's file: its version and its checkpointing count, and are removed with another strategy.
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
) 2>&1 || echo "exit $?"
