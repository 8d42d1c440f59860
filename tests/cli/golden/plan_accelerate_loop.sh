# A manual loop with accelerate whose arguments have Trainer's names: Accelerator(...) accepts none of Trainer's other
# keys, so they become manual steps. There is no equivalent estimate command because of DeepSpeed, not of accelerate.
cat > launch.sh <<'EOF'
accelerate launch --config_file accelerate.yaml train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 4
EOF
cat > accelerate.yaml <<'EOF'
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ds.json
num_machines: 1
num_processes: 2
EOF
cat > ds.json <<'EOF'
{
    "bf16": {"enabled": true},
    "zero_optimization": {"stage": 2, "overlap_comm": true}
}
EOF
cat > train.py <<'EOF'
parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=8)
parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
args = parser.parse_args()
accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision="bf16")
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-3B", torch_dtype=torch.bfloat16)
loader = DataLoader(dataset, batch_size=args.per_device_train_batch_size)
EOF
hand() {
  echo "== $1 by hand"
  $PLIMSOLL plan launch.sh -s 2048 --gpu 4090 --fix "$2" --out plan.json >said
  grep -A1 "Accelerator(...)" said; grep "no option" said
  cp launch.sh was.sh; cp ds.json was.json
  $PLIMSOLL apply plan.json --done "$1" >/dev/null; cmp -s was.sh launch.sh || echo "launch.sh is written"
  mv was.sh launch.sh; mv was.json ds.json
}
hand liger liger=on
hand checkpoint checkpoint=on
grep -c 'mixed_precision="bf16")$' train.py
