# One GPU of eight; the parameters wait on the host.
$PLIMSOLL estimate --model llama-3.1-8b --dtype fp32 --amp bf16 --strategy fsdp2 --world 8 --offload parameters --checkpoint --seq 2048 --gpu A100-SXM4-40GB
