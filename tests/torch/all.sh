#!/bin/bash
# all.sh BUILD_DIR: the tests that need packages of PyPI, most of them PyTorch. Skipped with a notice where they cannot be
# downloaded.
cd "$(dirname "$0")/../.." || exit 2
environment=$(tests/torch/environment.sh)
case $? in
0) ;;
3)
  echo "skipped: the packages of tests/torch/packages.txt cannot be downloaded"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
  ;;
*)
  echo "FAIL no virtual environment"
  echo "0 passed, 1 failed"
  exit 1
  ;;
esac
export PLIMSOLL_CUDA_HEADERS=$environment/headers/11:$environment/headers/12:$environment/headers/13
program=$1/release/plimsoll
# The longest come first.
exec tests/run.sh "python3 tests/torch/rows.py $program $environment ${RECORD:+--record docs/measurements.md}" \
  "python3 tests/package/wheel_check.py $1" \
  "python3 tests/torch/plan.py $program $environment" \
  "python3 tests/torch/parsers.py $program $environment" \
  "python3 tests/torch/seeds.py $program $environment" \
  "python3 tests/torch/run.py $program $environment" \
  "python3 tests/torch/watched.py $program $environment" \
  "python3 tests/torch/faults.py $program $environment" \
  "python3 tests/torch/trainers.py $program $environment" \
  "python3 tests/torch/prove.py $program $environment" \
  "python3 tests/torch/healed.py $program $environment/bin/python" \
  "python3 tests/torch/caps.py $program $environment" \
  "python3 tests/torch/launchers.py $program $environment" \
  "python3 tests/torch/world.py $program $environment" \
  "python3 tests/torch/chunked.py $program $environment" \
  "python3 tests/torch/times.py $program $environment" \
  "python3 tests/torch/profiled.py $program $environment" \
  "python3 tests/torch/programs.py $program $environment" \
  "python3 tests/torch/hooked.py $program $environment" \
  "python3 tests/torch/stranger.py $program $environment" \
  "tests/torch/values.sh $program $environment" \
  "python3 tests/card/names_check.py $1/release/card/libplimsoll-card.so $environment/headers" \
  "python3 tests/torch/stated.py $program $environment" \
  "python3 tests/card/layouts_check.py $1/release/tests/card/dump_layouts"
