# Each sample is one line of JSON.
source "$golden/../watching.sh"
make_root
make_run train-7b 4242 '"steps": 5000'
steps train-7b 4100 0 8192 12
FAKE_NVML_BUSY=1 $PLIMSOLL watch --json --once | undated
echo "exit ${PIPESTATUS[0]}"
PLIMSOLL_NVML=nowhere XDG_STATE_HOME= HOME= $PLIMSOLL watch --json --count 3 --interval 0.1 | undated
echo "exit ${PIPESTATUS[0]}"
# A reader that leaves ends it.
$PLIMSOLL watch --json --interval 0.1 | head -n 1 | wc -l
