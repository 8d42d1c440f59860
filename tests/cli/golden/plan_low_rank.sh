# GaLore, APOLLO, Adam-mini and LOMO: what the files say of them, what the plan keeps, and what is refused.
lines() { grep -E "^Qwen|^note|^now|^planned|^unverified|^optimizer|^plimsoll estimate|^error|^help" -A2; }
cat >galore.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-0.5B
stage: sft
do_train: true
finetuning_type: full
use_galore: true
galore_layerwise: true
galore_rank: 64
galore_target: mlp,self_attn
cutoff_len: 1024
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
pure_bf16: true
END
$PLIMSOLL plan galore.yaml --gpu 24GiB | lines
echo "== all linear layers, in 8 bits, after the backward pass"
sed '/layerwise/d; s/mlp,self_attn/all/; s/^stage/optim: adamw_8bit\nstage/' galore.yaml >all.yaml
$PLIMSOLL plan all.yaml --gpu 24GiB | grep -E "^optimizer|^now|^plimsoll estimate" -A2
echo "== optim decides the algorithm, and its default stops LLaMA-Factory"
$PLIMSOLL plan galore.yaml --gpu 24GiB --fix optimizer=galore-8bit | grep -E "^optimizer|^weights|^[-+][a-z]|^plimsoll estimate"
$PLIMSOLL plan galore.yaml --gpu 4500MiB | grep -E "^--allow optimizer" -A1
# Expandable segments grow in the third step, so this offer fits only without them.
sed 's,Qwen/Qwen2.5-0.5B,meta-llama/Meta-Llama-3-8B-Instruct,; s/size: 2/size: 1/; s/1024/2048/; s/rank: 64/rank: 128/; s/mlp,self_attn/all/' galore.yaml >large.yaml
$PLIMSOLL plan large.yaml --gpu 24GiB | sed -n '/^now/,$p'
$PLIMSOLL check galore.yaml --gpu 24GiB | grep -E "NotImplementedError" -A3
$PLIMSOLL plan galore.yaml --gpu 24GiB --versions torch=2.7 | grep -c NotImplementedError
sed 's/galore/apollo/; s/^stage/optim: adamw_8bit\nstage/' galore.yaml >apollo.yaml
$PLIMSOLL plan apollo.yaml --gpu 24GiB | grep -E "NotImplementedError" -A1
echo "== APOLLO with one factor for each gradient, and Adam-mini"
sed 's/galore/apollo/; s/^stage/apollo_scale_type: tensor\nstage/' galore.yaml >apollo.yaml
$PLIMSOLL plan apollo.yaml --gpu 24GiB | grep -E "^note: apollo|^optimizer|^now|^unverified|^plimsoll estimate" -A2
sed '/galore/d; s/^stage/use_adam_mini: true\nstage/' galore.yaml >mini.yaml
$PLIMSOLL plan mini.yaml --gpu 24GiB | grep -E "optimizer|^now|^unverified|^plimsoll estimate" -A1
echo "== Axolotl"
cat >galore.yml <<'END'
base_model: Qwen/Qwen2.5-0.5B
optimizer: galore_adamw
optim_args: rank=32, update_proj_gap=200
optim_target_modules:
  - mlp
  - self_attn
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
END
$PLIMSOLL plan galore.yml --gpu 24GiB | lines
echo "== two GPUs: nothing is sharded"
$PLIMSOLL plan galore.yml --gpu 24GiB --world 2 | grep -E "strategy|^planned|^unverified" -A1
echo "== Trainer, without the modules, and LOMO"
cat >train.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype="bfloat16")
args = TrainingArguments("out", optim="apollo_adamw_layerwise", per_device_train_batch_size=2, gradient_accumulation_steps=1)
Trainer(model=model, args=args, train_dataset=data).train()
END
$PLIMSOLL plan train.py --gpu 24GiB --seq 1024 | grep -E "optim_target|accumulate|^now|^plimsoll estimate" -A2
sed 's/apollo_adamw_layerwise/lomo/; s/steps=1/steps=4/' train.py >lomo.py
$PLIMSOLL plan lomo.py --gpu 24GiB --seq 1024 | grep -E "accumulate|strategy|^now|^planned|^plimsoll estimate" -A2
echo "== refused"
$PLIMSOLL estimate --model qwen2.5-0.5b --loop trainer --optimizer galore_adamw --strategy zero2 --world 2
$PLIMSOLL estimate --model qwen2.5-0.5b --loop trainer --optimizer apollo_adamw --lora-rank 8
$PLIMSOLL estimate --model qwen2.5-0.5b --loop trainer --optimizer galore_adamw_layerwise --accumulate 2
$PLIMSOLL estimate --model qwen2.5-0.5b --projection-rank 8
true
