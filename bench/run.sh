#!/bin/bash
# run.sh: the benchmarks of the release build. With RECORD=1 the figures go to docs/measurements.md.
cd "$(dirname "$0")/.." || exit 2
record=()
[ -n "${RECORD:-}" ] && record=(--record docs/measurements.md)
python3 bench/predict.py build/plimsoll build/release/bench/bench_process "${record[@]}" || exit 1
exec python3 bench/compare.py build/plimsoll build/release/bench/bench_simulator \
  tests/truth/snapshots/stacks-leak-logits.pickle.xz build/bench "${record[@]}"
