#!/bin/bash
# run.sh: the benchmarks of the release build. With RECORD=1 the figures go to docs/measurements.md.
cd "$(dirname "$0")/.." || exit 2
record=()
[ -n "${RECORD:-}" ] && record=(--record docs/measurements.md)
python3 bench/predict.py build/plimsoll build/release/bench/bench_process "${record[@]}" || exit 1
python3 bench/newcomer.py build/plimsoll build/bench "${record[@]}" || exit 1
python3 bench/configs.py build/plimsoll ../shared/configs "${record[@]}" || exit 1
if environment=$(tests/torch/environment.sh); then
  python3 bench/simulate.py build/plimsoll "$environment" "${record[@]}" || exit 1
else
  echo "not measured: the simulated GPU, because the packages of tests/torch/packages.txt cannot be downloaded"
fi
exec python3 bench/compare.py build/plimsoll build/release/bench/bench_simulator \
  tests/truth/snapshots/stacks-leak-logits.pickle.xz build/bench "${record[@]}"
