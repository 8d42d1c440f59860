# Options without effect are refused, and differences from the request are reported.
(
part idle_options
# An option that would change nothing is refused, with what to type.
try() {
  echo "$*" >&2
  $PLIMSOLL estimate -b 1 -s 64 "$@" >/dev/null
  echo "exit $?" >&2
}
try -m tiny-llama --target-seq 8
for option in "--lora-alpha 32" "--lora-dropout 0.1" "--lora-targets all-linear" "--lora-dtype bf16"; do
  try -m tiny-llama $option
done
try -m tiny-llama --dtype fp32 --lora-rank 8 --lora-dtype bf16
try -m mpnet-base --checkpoint
try -m mpnet-base --reentrant
try -m mpnet-base --offload checkpoints
try -m tiny-llama --link pcie
try -m tiny-llama --strategy ddp --world 2 --network 50
try -m tiny-llama --loss-chunk 256
try -m gpt2 --liger
try -m tiny-llama --lora-rank 8 --weights nf4 --load init
try -m tiny-llama --offload parameters --strategy zero2 --world 2
try -m tiny-llama --no-reshard --strategy zero3 --world 2
try -m tiny-llama --reduce-dtype bf16 --amp bf16 --strategy ddp --world 2
try -m tiny-llama --reduce-dtype bf16 --strategy fsdp2 --world 2
try -m tiny-llama --bucket-views
try -m tiny-llama --delete-outputs --loop trainer
try -m tiny-llama --delete-outputs --loss chunked
) 2>&1 || echo "exit $?"
(
part notes
# Differences from the request are reported.
$PLIMSOLL estimate -m tiny-llama -b 1 -s 64 --steps 1 --gpu 4090 --limit 80GiB | grep -A1 note:
$PLIMSOLL estimate -m tiny-llama -b 1 -s 64 --steps 1 --strategy fsdp2 --world 2 --offload optimizer | grep -A1 note:
) 2>&1 || echo "exit $?"
