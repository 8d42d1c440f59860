# Plans that would change what is learned, or that the framework or the machine would refuse, are not made.
written() { python3 -c 'import json, sys; d = json.load(open("plan.json")); print(sorted({w["knob"] for r in d["rungs"] for w in r["writes"] + r["by_hand"]}))'; }
axolotl() {
  cat <<END
base_model: HuggingFaceTB/SmolLM2-135M
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
sequence_len: 512
micro_batch_size: 2
gradient_accumulation_steps: 1
gradient_checkpointing: true
bf16: true
$1
END
}
(
part 'an optimizer that is not modelled stays, in every row'
axolotl 'optimizer: adamw_torch_8bit' >train.yml
$PLIMSOLL plan train.yml --gpu 2GiB --out plan.json | grep -A1 "will not be changed"
written
axolotl 'optimizer: adamw_torch' >train.yml
$PLIMSOLL plan train.yml --gpu 2GiB --out plan.json >/dev/null
written
)
(
part 'bf16 that the GPU can only emulate becomes fp16'
axolotl 'optimizer: adamw_torch_fused' >train.yml
held="--gpu t4 --fix micro_batch=2 --fix checkpoint=on --fix liger=off --fix alloc_conf=unchanged"
echo "adapters: "
{ cat train.yml; printf 'adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n'; } >lora.yml
$PLIMSOLL plan lora.yml $held | grep -E '^(precision|[-+](bf16|fp16))'
echo "all parameters, which one key loads in bf16 too: no scaler takes gradients in fp16"
$PLIMSOLL plan train.yml $held | sed -n '/^changes/,/^$/p'
)
(
part 'FSDP2 with an optimizer that Axolotl refuses there'
axolotl 'optimizer: adamw_bnb_8bit' >train.yml
ways() { python3 -c 'import json, sys; print(sorted({r["strategy"] for r in json.load(sys.stdin)["ladder"]}))'; }
$PLIMSOLL plan train.yml --gpu 24GiB --world 2 --try strategy=fsdp2,ddp --json | ways
sed 's/adamw_bnb_8bit/adamw_torch_fused/' train.yml >other.yml
$PLIMSOLL plan other.yml --gpu 24GiB --world 2 --try strategy=fsdp2,ddp --json | ways
$PLIMSOLL plan train.yml --gpu 24GiB --world 2 --fix strategy=fsdp2 2>&1
)
(
part 'activations on the host only with checkpoints, as Axolotl wants it'
axolotl 'optimizer: adamw_torch_fused' >train.yml
$PLIMSOLL plan train.yml --gpu 24GiB --fix offload=activations | grep -E '^ *[+-](grad|activation)|^(planned|checkpoint)'
)
(
part 'a model that is loaded before ZeRO-3 is set up counts whole'
cat >train.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
args = TrainingArguments("out", per_device_train_batch_size=1, gradient_accumulation_steps=1, bf16=True, deepspeed="ds.json")
Trainer(model, args).train()
END
echo '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}}' >ds.json
$PLIMSOLL plan train.py -s 512 --gpu 12GiB --fix checkpoint=on --fix strategy=zero3 --fix offload=parameters | grep -A6 "^NOTHING"
)
(
part 'by hand: the lines that the program understands'
held="-s 512 --gpu 24GiB --world 2 --fix checkpoint=on --fix strategy=zero3 --fix offload=parameters --fix micro_batch=1"
cat >loop.py <<'END'
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
optimizer = AdamW(model.parameters())
loader = DataLoader(data, batch_size=1)
END
$PLIMSOLL plan loop.py $held | grep -E "^ *(accelerate|deepspeed) "
cat >light.py <<'END'
import lightning as L
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = L.Trainer(devices=2)
trainer.fit(model, DataLoader(data, batch_size=1))
END
$PLIMSOLL plan light.py $held | grep -E "deepspeed|python light"
$PLIMSOLL plan light.py -s 512 --gpu 24GiB --try micro_batch=1 | head -1
)
(
part 'a block size'
cat >run.sh <<'END'
python run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --block_size 512 --per_device_train_batch_size 2 --do_train --output_dir out --bf16
END
$PLIMSOLL plan run.sh --gpu 24GiB --try micro_batch=2 | sed -n '/^assumes/,/^$/p'
cat >train.py <<'END'
import argparse
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
parser = argparse.ArgumentParser()
parser.add_argument("--block_size", type=int, default=1024)
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").cuda()
optimizer = AdamW(model.parameters())
for batch in DataLoader(data, batch_size=args.batch_size):
    model(**batch).loss.backward()
    optimizer.step()
END
echo 'python train.py --block_size 512 --batch_size 4' >run.sh
$PLIMSOLL plan run.sh --gpu 24GiB --try micro_batch=4 | grep -A1 "^GPU"
)
exit 0
