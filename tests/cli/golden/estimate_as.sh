part "adapters for Axolotl"
$PLIMSOLL estimate --model qwen2.5-7b --batch 2 --seq 2048 --lora-rank 16 --checkpoint --amp bf16 --loop trainer --mask pad --as axolotl 2>&1
part "ZeRO-3 in a script"
$PLIMSOLL estimate --model qwen2.5-0.5b --seq 512 --amp bf16 --strategy zero3 --world 4 --offload optimizer --loop trainer --as trl 2>&1
part "QLoRA for every other trainer"
for trainer in llama-factory transformers unsloth torchtune lightning plimsoll; do
  echo "-- $trainer"
  $PLIMSOLL estimate --model qwen2.5-0.5b --seq 512 --lora-rank 8 --weights nf4 --amp bf16 --alloc-conf expandable_segments:True --as $trainer 2>&1
done
part "only the launch"
for trainer in accelerate deepspeed; do
  echo "-- $trainer"
  $PLIMSOLL estimate --model gpt2 --strategy zero2 --world 2 --amp bf16 --as $trainer 2>&1
done
part "full fine-tuning keeps its embeddings in float32"
$PLIMSOLL estimate --model qwen2.5-0.5b --seq 512 --amp bf16 --as axolotl 2>&1 >/dev/null
part "JSON"
$PLIMSOLL estimate --model qwen2.5-0.5b --seq 512 --lora-rank 8 --as axolotl --json
part "mistakes"
$PLIMSOLL estimate --model gpt2 --as axolot 2>&1
$PLIMSOLL estimate --model gpt2 --as torchtune 2>&1
$PLIMSOLL estimate --model gpt2 --as trl --explain 2>&1
