# accelerate's file as it is generated: checkpointing stands in it where it is planned and has no other place, not where
# the script's own arguments have one; what Trainer saves is whole.
held="--gpu 24GiB --world 2 --fix strategy=fsdp2 --fix offload=none --fix checkpoint=on --fix micro_batch=4 --fix liger=off --fix chunked_loss=0 --fix alloc_conf=default"
cat > loop.py <<'END'
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
accelerator = Accelerator(mixed_precision="bf16")
model = AutoModelForCausalLM.from_pretrained("gpt2")
loader = DataLoader(data, batch_size=4)
END
show() { grep -E "^ *fsdp_|accelerate|checkpointing_enable"; }
echo "== no place"
$PLIMSOLL plan loop.py -s 256 $held | show
echo "== on already"
echo "model.gradient_checkpointing_enable()" >> loop.py
$PLIMSOLL plan loop.py -s 256 $held | show
