# One sample: cards with their processes, a run that leaks, one of which nothing is known yet, host memory.
source "$golden/../watching.sh"
(
part leak
make_root
make_run train-7b 4242 '"steps": 5000'
steps train-7b 4100 0 8192 12
make_run waiting 4243 '"limit_bytes": 8589934592'
FAKE_NVML_BUSY=2 $PLIMSOLL watch --once | undated
echo "exit ${PIPESTATUS[0]}"
)
(
part narrow
make_root
make_run train-7b 4242 '"steps": 5000'
steps train-7b 4100 0 8192 12
FAKE_NVML_BUSY=2 COLUMNS=40 $PLIMSOLL watch --once | undated
)
(
part low
# Steady, two ranks, and less than half of the memory used.
make_root
make_run low 4242 '"steps": null'
steps low 4100 0 2048 0
steps low 4101 1 3072 0
PLIMSOLL_NVML=nowhere $PLIMSOLL watch | undated
echo "exit ${PIPESTATUS[0]}"
)
(
part unknown
# What the driver does not tell is unknown.
make_root
FAKE_NVML_BUSY=2 FAKE_NVML_FAILS="Utilization Temperature PowerUsage Memory Processes" $PLIMSOLL watch --once
FAKE_NVML_BROKEN=1 $PLIMSOLL watch --once
FAKE_NVML_FAILS=Count XDG_STATE_HOME= HOME= $PLIMSOLL watch --once
)
