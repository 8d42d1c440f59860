# What is done in another way than asked for is said.
$PLIMSOLL estimate -m tiny-llama -b 1 -s 64 --steps 1 --gpu 4090 --limit 80GiB | grep -A1 note:
$PLIMSOLL estimate -m tiny-llama -b 1 -s 64 --steps 1 --strategy fsdp2 --world 2 --offload optimizer | grep -A1 note:
