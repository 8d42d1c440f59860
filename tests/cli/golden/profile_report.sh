# The report on a machine with two cards. The programs stand for training ones: they leave what the Python modules would.
export XDG_STATE_HOME=$PWD/state PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so"
profile() { $PLIMSOLL profile "$@" 2>&1 | sed -E 's/(steps?), [0-9.]+ m?s/\1, TIME/'; echo "exit ${PIPESTATUS[0]}"; }

cat >train.sh <<'END'
echo "step 1 of 10"
xz -dc truth/snapshots/stacks-tiny.pickle.xz >"$PLIMSOLL_OUT/$$.pickle"
cat >"$PLIMSOLL_OUT/$$.json" <<JSON
{"rank": 0, "world": 1, "steps": $PLIMSOLL_STEPS, "cuda": "13.0", "host_bytes": 1073741824, "was_ended": ${ENDED:-true},
 "versions": {"torch": "2.11.0", "transformers": "5.17.0"},
 "devices": [{}, {"allocated_bytes.all.peak": 1610612736, "reserved_bytes.all.peak": 2147483648, "num_ooms": ${OOMS:-0}}],
 "observed": {"model": {"class": "Net", "parameters": 1000, "trained": 10}, "batch": [4, 512], "has_tokens": true},
 "measured": {"step_seconds": [9, 0.5, 0.75, 0.25], "devices": [{}, {"name": "NVIDIA GeForce RTX 4090", "uuid": "1",
   "total_bytes": 25757220864, "outside_first_bytes": 1717567488, "outside_peak_bytes": 2242904064}]}}
JSON
exit ${STATUS:-0}
END

echo "== alone"
profile --steps 5 --top 2 -- bash train.sh
echo "== out of memory, and another failure"
STATUS=1 OOMS=1 ENDED=false profile --top 1 -- bash train.sh | head -12
STATUS=3 profile -- bash train.sh
profile -- bash -c 'kill -9 $$'
echo "== stopped by the user"
ENDED=false profile --top 1 -- bash -c 'bash train.sh; kill -INT $$' | sed -n 3,6p
ENDED=false STATUS=130 profile --top 1 -- bash train.sh | sed -n 2,6p
echo "== without PyTorch"
profile -- true

echo "== against an estimate"
$PLIMSOLL estimate --model qwen2.5-0.5b --gpu 4090 --seq 128 --json >estimated.json
profile --steps 5 --top 2 --against estimated.json -- bash train.sh | sed -n '/^Comparison/,$p'
echo "== against itself, and with other versions, lines and batches"
$PLIMSOLL profile --steps 5 --json -- bash train.sh >measured.json 2>/dev/null
profile --steps 5 --against measured.json -- bash train.sh | sed -n '/^Comparison/,$p'
sed -e 's/"5.17.0"/"5.22.2"/' -e 's/"peak_allocated_bytes": 1610612736/"peak_allocated_bytes": 1600000000/' \
  -e '/"batch": \[/,/\]/s/512/1024/' -e '0,/"bytes": [0-9]*/s//"bytes": 5000000/' \
  -e 's/"outside_peak_bytes": [0-9]*/"outside_peak_bytes": null/' measured.json >other.json
profile --steps 6 --top 2 --against other.json -- bash train.sh | sed -n '/^Comparison/,$p'
echo "== against a simulation of the same command"
profile --steps 5 --compare --unsandboxed -- bash train.sh | sed -n '/^Comparison/,$p'
cat >fail.sh <<'END'
if [ -n "$PLIMSOLL_PROFILE" ]; then . ./train.sh; fi
exit 3
END
profile --steps 5 --compare --unsandboxed -- bash fail.sh | sed -n '/^note: there/,/^$/p' | sed 's/[^ ]*log$/LOG/'
echo "== JSON"
$PLIMSOLL profile --steps 5 --top 2 --against other.json --json -- bash train.sh 2>/dev/null |
  python3 -c 'import json, sys; r = json.load(sys.stdin); del r["run"]["replay"], r["run"]["seconds"]; print(json.dumps(r))'
echo "== what is kept"
$PLIMSOLL profile --out kept.pickle -- bash train.sh >/dev/null 2>&1
xz -dc truth/snapshots/stacks-tiny.pickle.xz | cmp - kept.pickle && echo "the snapshot"
find state -type f ! -name log # of the simulations
