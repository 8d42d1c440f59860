# TrainingArguments(fsdp=...) is accelerate's FSDP2 unless its version says otherwise, and so is Accelerator's with its
# file; a loop of one's own is fully_shard of each layer. Gradients of accumulated batches stay whole.
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
