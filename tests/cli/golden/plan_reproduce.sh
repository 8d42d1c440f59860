# The estimate command at the end of a plan predicts the same bytes as the plan; if an option is missing for that, there
# is no command but the reason.
export HF_HOME=nowhere PLIMSOLL_NVML=none
field() { grep -m1 "\"$1\"" | sed 's/.*": //; s/,$//'; }
same() {
  local want got command
  $PLIMSOLL plan "$@" --json >plan.json
  command=$(field reproduce <plan.json | sed 's/^"//; s/"$//; s/\\"/"/g; s/\\\\/\\/g')
  echo "$command"
  [ "$command" = null ] && return
  eval "$PLIMSOLL ${command#plimsoll } --json" >estimate.json
  for what in peak_allocated_bytes peak_reserved_bytes device_bytes host_bytes; do
    want=$(field $what <plan.json) got=$(field $what <estimate.json)
    [ "$want" = "$got" ] || echo "$what: $want planned, $got by hand"
  done
  echo "the same"
}
same -m llama-3.2-1b --world 8 -b 2 -s 1024 --amp bf16 --dtype fp32 -g 16GiB
same -m llama-3.2-1b --world 4 --strategy fsdp2 --loop trainer --amp bf16 -b 2 -g "A100 40GB"
same -m llama-3.2-1b --lora-rank 8 --fix quantisation=nf4-double --prepare none --weights nf4-double -b 4 -g 8GiB
same -m sentence-transformers/all-MiniLM-L6-v2 --loss contrastive --columns 3 -b 64 -s 128 -g 4GiB --allow micro_batch
same -m t5-base -b 8 -s 512 --target-seq 64 -g 12GiB --no-clip -o adafactor
same fixtures/small/train.yaml -g 12GiB && same fixtures/small/train.yaml -g 24GiB --fix micro_batch=1 --effective-batch 48
same fixtures/seed0/start_baseline.sh -g 24GiB
cd fixtures/seed1 && $PLIMSOLL plan scripts/experiments.sh configs/trainer/finetune.yaml configs/accelerate/default_config.yaml configs/accelerate/zero_stage3.json --model llama-3.1-8b --gpu 48GiB | tail -1
