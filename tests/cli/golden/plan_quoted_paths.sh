# Commands that are printed run as they are, whatever the paths contain: fake programs show the words they get.
mkdir bin "my conf"
for name in torchrun tune accelerate llamafactory-cli; do
  printf '#!/bin/bash\necho "%s gets:"\nprintf "  <%%s>\\n" "$@"\n' $name >bin/$name
done
printf '#!/bin/bash\n"$@"\n' >bin/srun # one task
printf '#!/bin/bash\necho HEAD\n' >bin/hostname
printf '#!/bin/bash\neval "${@: -1}"\n' >bin/sbatch # --wrap SCRIPT comes last
chmod +x bin/*
PATH=$PWD/bin:$PATH
run() { sed -n '/^to do by hand/,/^changes to/p' | sed -n "/^ *$1/,/^\$/p" | sed "/^\$/,\$d" >line && bash line; }

cat >"my conf/tune it.yaml" <<'END'
model:
  _component_: torchtune.models.qwen2_5.lora_qwen2_5_7b_instruct
  lora_attn_modules: [q_proj, v_proj]
  lora_rank: 16
tokenizer:
  max_seq_len: 2048
optimizer:
  _component_: torch.optim.AdamW
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 4
gradient_accumulation_steps: 2
dtype: bf16
END
echo "== torchtune"
$PLIMSOLL plan "my conf/tune it.yaml" --world 4 --gpu 80GiB --try micro_batch=4 | run tune

cat >"it's my train.py" <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("qwen2.5-0.5b", dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=2, bf16=True)
Trainer(model, args).train()
END
echo "== a script, on two machines through Slurm"
$PLIMSOLL plan "it's my train.py" -s 512 --world 4 --nodes 2 --gpu 24GiB --try micro_batch=2 | run sbatch

cat >'a $HOME.yaml' <<'END'
model_name_or_path: qwen2.5-0.5b
stage: sft
finetuning_type: full
per_device_train_batch_size: 2
cutoff_len: 512
bf16: true
END
echo "== LLaMA-Factory"
$PLIMSOLL plan 'a $HOME.yaml' --world 2 --gpu 24GiB --try micro_batch=2 | run FORCE
