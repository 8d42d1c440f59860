# The memory limit of a Slurm job.
$PLIMSOLL explain fixtures/logs/slurm.log
