# A plan is launched by the program that the files are for, with the configuration that accelerate needs.
(
part launch_programs
# A plan is launched by the program that the files are for: LLaMA-Factory's and Axolotl's, Lightning's own processes, and
# a module as in the user's command.
held="--gpu 80GiB --fix checkpoint=on --fix micro_batch=1 --fix liger=off --fix chunked_loss=0 --fix alloc_conf=default"
todo() { grep -E "^ *(torchrun|axolotl|tune|USE|accelerate|deepspeed|python|FORCE|fsdp|in your own|export HEAD)"; }
cat > sft.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
finetuning_type: full
template: qwen
cutoff_len: 512
per_device_train_batch_size: 1
bf16: true
END
echo "== LLaMA-Factory"
$PLIMSOLL plan sft.yaml --world 4 $held --fix strategy=zero3 --fix offload=none | todo
$PLIMSOLL plan sft.yaml --world 8 --nodes 2 $held --fix strategy=zero3 --fix offload=none | todo
echo "== its FSDP2 takes accelerate"
$PLIMSOLL plan sft.yaml --world 4 $held --fix strategy=fsdp2 --fix offload=none | todo
echo "== Axolotl"
cat > ax.yml <<'END'
base_model: Qwen/Qwen2.5-1.5B
sequence_len: 512
micro_batch_size: 1
bf16: true
END
$PLIMSOLL plan ax.yml --world 4 $held --fix strategy=zero3 --fix offload=none | todo
echo "== Lightning"
cat > train.py <<'END'
import lightning as L
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
loader = DataLoader(data, batch_size=1)
trainer = L.Trainer(devices=4, precision="bf16-mixed", strategy="ddp")
trainer.fit(model, loader)
END
$PLIMSOLL plan train.py -s 512 $held --fix strategy=ddp | todo
$PLIMSOLL plan train.py -s 512 $held --fix strategy=fsdp2 --fix offload=none | todo
echo "== a script with arguments of its own"
sed 's/^import lightning as L/&\nimport argparse/' train.py > own.py
$PLIMSOLL plan own.py -s 512 $held --fix strategy=ddp | todo
echo "== torchtune, by the recipe that its file names, or by what it trains"
cat > tune.yaml <<'END'
# tune run --nnodes 1 qat_lora_finetune_distributed --config llama3_2/3B_qat_lora
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: nowhere/t
  max_seq_len: 512
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
optimizer:
  _component_: torch.optim.AdamW
  lr: 2e-5
batch_size: 1
gradient_accumulation_steps: 8
enable_activation_checkpointing: True
dtype: bf16
END
$PLIMSOLL plan tune.yaml --world 4 --gpu 80GiB | todo
sed 1d tune.yaml > own.yaml
$PLIMSOLL plan own.yaml --world 8 --nodes 2 --gpu 80GiB | todo
echo "== LLaMA-Factory's version 1"
cat > v1.yaml <<'END'
model: Qwen/Qwen2.5-1.5B
model_class: llm
dist_config:
  name: fsdp2
train_dataset: data/v1_sft_demo.yaml
output_dir: out
micro_batch_size: 1
cutoff_len: 512
END
$PLIMSOLL plan v1.yaml --world 4 --gpu 80GiB | todo
echo "== a module"
mkdir m && cd m || exit 9
cat > sft.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-1.5B
dataset_name: trl-lib/Capybara
per_device_train_batch_size: 1
max_length: 512
packing: true
END
cat > fsdp2.yaml <<'END'
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 8
fsdp_config:
  fsdp_version: 2
END
echo "accelerate launch --config_file fsdp2.yaml -m trl.scripts.sft --config sft.yaml" > launch.sh
$PLIMSOLL plan launch.sh $held | todo || echo "started as ever"
$PLIMSOLL plan launch.sh --world 4 $held | todo
) 2>&1 || echo "exit $?"
(
part launch_accelerate
# The generated configuration of accelerate: it contains checkpointing if that is planned and the script has no argument
# for it; Trainer saves the whole model.
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
) 2>&1 || echo "exit $?"
