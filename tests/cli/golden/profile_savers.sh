# The savers: variables for the program, and what the report says of what they did. The program stands for a training one: it
# leaves what the Python modules would.
export XDG_STATE_HOME=$PWD/state PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so"
cat >train.sh <<'END'
echo "chunks of $PLIMSOLL_CHUNKED_LOSS, empty cache every $PLIMSOLL_EMPTY_CACHE_EVERY, gc every $PLIMSOLL_GC_EVERY"
cat >"$PLIMSOLL_OUT/$$.json" <<JSON
{"rank": 0, "world": 1, "steps": 4, "cuda": "13.0", "versions": {"torch": "2.11.0"}, "devices": [{"reserved_bytes.all.peak": 2147483648}],
 "savers": $SAVERS,
 "measured": {"step_seconds": [1], "devices": [{"name": "NVIDIA GeForce RTX 4090", "uuid": "1", "total_bytes": 25757220864}]}}
JSON
END
used='{"empty_cache": 2, "gc": 4, "chunked_loss": {"tokens": 256, "losses": 4, "most_tokens": 8192, "float32_logits_bytes": 4982833152,
  "looked_at": [{"file": "train.py", "line": 31, "times": 4}], "off": null}}'
echo "== used"
SAVERS=$used $PLIMSOLL profile --chunked-loss 256 --empty-cache-every 2 --gc-every 1 -- bash train.sh 2>&1 | sed -n '/^chunks/p; /^note/,/^$/p'
echo "== without effect, and with the usual chunks"
SAVERS='{"empty_cache": null, "gc": null, "chunked_loss": {"off": "the program computes the loss itself: it gives the model no labels"}}' \
  $PLIMSOLL profile --chunked-loss bash train.sh 2>&1 | sed -n '/^chunks/p; /^note/,/^$/p'
echo "== JSON"
for savers in "$used" null; do
  SAVERS=$savers $PLIMSOLL profile --chunked-loss --json -- bash train.sh 2>/dev/null |
    python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["run"]["processes"][0]["savers"]))'
done
echo "== mistakes"
$PLIMSOLL simulate --chunked-loss=many -- true
$PLIMSOLL simulate --gc-every -- true
