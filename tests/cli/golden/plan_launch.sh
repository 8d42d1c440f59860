# How a plan is launched: with the ecosystem's own command, the existing files and the user's own arguments.
todo() { sed -n '/^to do by hand/,/^changes to/p' | grep -v '^changes to'; }
flags='pretrain_gpt.py --micro-batch-size 2 --global-batch-size 64 --seq-length 1024 --bf16 --num-attention-heads 16'
echo "torchrun --nproc_per_node 8 $flags" > run.sh
echo "== Megatron has a flag, and its command starts as ever"
$PLIMSOLL plan run.sh -m llama-3.1-8b --gpu 80GiB | todo
echo "== and is never told to take DeepSpeed"
$PLIMSOLL plan run.sh -m llama-3.1-8b --gpu 40GiB,80GiB | grep -ciE 'deepspeed|zero[23]'
echo "== two machines: what is printed runs"
cat > two.sh <<'END'
#!/bin/bash
# not this.py
python train.py --model_name_or_path qwen2.5-7b --per_device_train_batch_size 1 \
  --gradient_accumulation_steps 16 --bf16 --max_length 1024  # as ever
END
$PLIMSOLL plan two.sh -s 1024 --world 8 --nodes 2 --gpu 80GiB | todo | tee lines | sed -n '/^to do by hand/,/^changes to/p'
bash -n <(sed -n '/^export HEAD/,$p' lines | sed '/^to do by hand/,$d') && echo "bash reads it"
echo "== accelerate's file knows of both"
$PLIMSOLL plan -m qwen2.5-7b -s 1024 -a 16 --strategy fsdp2 --world 8 --nodes 2 --gpu 80GiB --fix strategy=fsdp2 |
  grep -E '^ *(num_|machine_|main_)'
sed -i 's/ --bf16/ $EXTRA/' two.sh
echo "== what only the script knows is left to the reader"
$PLIMSOLL plan two.sh -s 1024 --world 4 --gpu 80GiB | grep 'train.py'
echo "== a DeepSpeed file that is there gets no second one"
cat > ds.json <<'END'
{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}}, "bf16": {"enabled": true}}
END
echo 'deepspeed --num_gpus 8 train.py --deepspeed ds.json --per_device_train_batch_size 1 --bf16' > ds.sh
$PLIMSOLL plan ds.sh ds.json -m llama-3.1-8b -s 1024 --gpu 24GiB --fix strategy=zero3 --fix offload=parameters |
  sed -n '/^to do by hand/p; /^to do by hand/p; /^diff/p; /^[-+]{/p'
echo "== plain python gives DeepSpeed no RANK; what a diff writes is not to do"
echo 'python train.py --model_name_or_path qwen2.5-1.5b --per_device_train_batch_size 1 --bf16 --max_length 1024' > one.sh
$PLIMSOLL plan one.sh -s 1024 --gpu 12GiB --fix strategy=zero3 --fix offload=parameters --fix chunked_loss=off | todo
echo "== a file that is found beside another is found where the run starts"
mkdir conf && cp fixtures/check/offload.yaml fixtures/check/offload.json conf
$PLIMSOLL plan conf/offload.yaml --world 4 --gpu 80GiB | grep 'llamafactory-cli'
cp conf/offload.json . && $PLIMSOLL plan conf/offload.yaml --world 4 --gpu 80GiB | grep 'llamafactory-cli'
