# A buffer of NCCL, in colour and with the prefixes of Ray and torchrun.
$PLIMSOLL explain fixtures/logs/nccl.log
