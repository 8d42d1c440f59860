# The number of GPUs: of all machines, inferred from the batch, or asked for; unsupported kinds of parallelism.
cat > train.yaml <<'END'
model_name_or_path: qwen2.5-0.5b
per_device_train_batch_size: 8
gradient_accumulation_steps: 2
bf16: true
deepspeed: ds.json
END
cat > ds.json <<'END'
{"train_batch_size": 64, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}
END
plan() { $PLIMSOLL plan "$@" -s 512 --gpu 24GiB 2>&1; }
say() { echo "== $1"; shift; "$@" | grep -E '^(error|help|note: assuming [0-9]+ GPUs|now:|.*effective)|known:'; }
say "the batch takes four" plan train.yaml
say "as typed" plan train.yaml --world 1 --strategy none
sed -i 's/64/60/' ds.json
say "no number of GPUs makes the batch" plan train.yaml
sed -i 's/"train_batch_size": 60, //' ds.json
say "ZeRO among how many" plan train.yaml
say "check, the same" $PLIMSOLL check train.yaml --gpu 24GiB
flags='pretrain_gpt.py --micro-batch-size 2 --global-batch-size 64 --seq-length 512 --bf16'
echo "torchrun --nnodes 2 --nproc_per_node 4 $flags" > run.sh
say "two machines" plan run.sh -m qwen2.5-0.5b
echo "torchrun --nnodes \$SLURM_NNODES --nproc_per_node 4 $flags" > run.sh
say "machines that nobody knows" plan run.sh -m qwen2.5-0.5b
say "said instead" plan run.sh -m qwen2.5-0.5b --world 16 --nodes 4
echo "python $flags" > run.sh
say "accumulation is what GPUs leave" plan run.sh -m qwen2.5-0.5b
say "three leave no whole number" plan run.sh -m qwen2.5-0.5b --world 3
echo "torchrun --nproc_per_node 8 $flags --tensor-model-parallel-size 4" > run.sh
say "tensor parallel" plan run.sh -m qwen2.5-0.5b
say "check, the same" $PLIMSOLL check run.sh -m qwen2.5-0.5b --gpu 24GiB
echo "trl dpo --model_name_or_path qwen2.5-0.5b --per_device_train_batch_size 2 --use_peft" > run.sh
say "another training" plan run.sh
say "check, the same" $PLIMSOLL check run.sh --gpu 24GiB
