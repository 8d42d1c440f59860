# Changes from ZeRO and FSDP to full copies, and from one to the other: the keys that turned it on are removed,
# checkpointing stays, and undo restores every byte.
work=$(mktemp -d) && cd "$work" && mkdir project && cd project || exit 9
cat >ds.json <<'END'
{
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": 1.0,
  "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}
}
END
cat >train.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("qwen2.5-0.5b", dtype="bfloat16")
args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=4,
    gradient_checkpointing=True,
    bf16=True,
    deepspeed="ds.json",  # too slow
)
Trainer(model=model, args=args).train()
END
cat >fsdp.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("qwen2.5-0.5b", dtype="bfloat16")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4, fsdp="full_shard auto_wrap",
                         fsdp_config={
                             "version": 2,
                             "activation_checkpointing": True,  # not the trainer's own
                         },
                         bf16=True)
Trainer(model=model, args=args).train()
END
cat >flags.sh <<'END'
torchrun --nproc_per_node 4 run_clm.py \
  --model_name_or_path qwen2.5-0.5b \
  --deepspeed ds.json \
  --per_device_train_batch_size 4 --gradient_checkpointing true \
  --bf16 true
END
cat >sft.yaml <<'END'
model_name_or_path: qwen2.5-0.5b
stage: sft
finetuning_type: full
cutoff_len: 512
deepspeed: ds.json  # examples/deepspeed
per_device_train_batch_size: 4
bf16: true
END
cat >axolotl.yaml <<'END'
base_model: qwen2.5-0.5b
sequence_len: 512
micro_batch_size: 4
optimizer: adamw_torch_fused
bf16: true
fsdp:
  - full_shard
  - auto_wrap
fsdp_config:
  fsdp_offload_params: true
  fsdp_activation_checkpointing: true
wandb_project: x
END
cat >accelerate.yaml <<'END'
compute_environment: LOCAL_MACHINE
deepspeed_config:
  # as it was recommended
  deepspeed_config_file: ds.json
  zero3_init_flag: true
distributed_type: DEEPSPEED
num_machines: 1
num_processes: 4
END
cat >plain.py <<'END'
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("qwen2.5-0.5b", dtype="bfloat16")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=4, bf16=True)
Trainer(model=model, args=args).train()
END
echo 'accelerate launch --config_file accelerate.yaml plain.py' >launch.sh
cp -r . ../before
for file in train.py fsdp.py flags.sh sft.yaml axolotl.yaml launch.sh; do
  for strategy in ddp fsdp2 zero2; do
    [ $file$strategy = fsdp.pyfsdp2 ] && continue # it already has this strategy
    echo "== $file to $strategy"
    $PLIMSOLL plan $file --world 4 --seq 512 --gpu 48GiB --fix strategy=$strategy --fix offload=none --fix micro_batch=4 --fix liger=off \
      --fix chunked_loss=0 --fix alloc_conf=default --fix checkpoint=on --out ../plan.json >../plan.txt
    grep -E "^planned|^strategy .*:" ../plan.txt | cut -c1-70
    $PLIMSOLL apply ../plan.json --dry-run >../plan.diff 2>&1 && grep -E "^[-+]" ../plan.diff
    git init -q . && { ! grep -q "^diff" ../plan.diff || git apply --check ../plan.diff; } && $PLIMSOLL apply ../plan.json >/dev/null
    $PLIMSOLL plan $file --world 4 --seq 512 --gpu 48GiB --try alloc_conf=default | grep "^now:" | cut -c1-18
    python3 - <<'END'
import ast, json, pathlib, yaml
for path in pathlib.Path(".").iterdir():
    if path.suffix in (".yaml", ".json"):
        (json.loads if path.suffix == ".json" else yaml.safe_load)(path.read_text())
    elif path.suffix == ".py":
        ast.parse(path.read_text())
END
    $PLIMSOLL undo >/dev/null && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
  done
done
rm -rf "$work"
