# One GPU of eight: offloaded parameters, and a model that is whole on each card while it is loaded.
(
part sharded
# One GPU of eight, with parameters on the host.
$PLIMSOLL estimate --model llama-3.1-8b --dtype fp32 --amp bf16 --strategy fsdp2 --world 8 --offload parameters --checkpoint --seq 2048 --gpu A100-SXM4-40GB
) 2>&1 || echo "exit $?"
(
part loaded_whole
# A sharded model that is whole on each card while it is loaded: what does not fit and what to do, in 80 columns.
$PLIMSOLL estimate -m llama-3.1-70b --world 8 --strategy zero3 --lora-rank 8 --gpu 80GiB --checkpoint | grep -v "^ [A-Za~]"
echo "-- the same, loaded in parts"
$PLIMSOLL estimate -m llama-3.1-70b --world 8 --strategy zero3 --lora-rank 8 --gpu 80GiB --checkpoint --load sharded | grep -E "FIT|help"
) 2>&1 || echo "exit $?"
