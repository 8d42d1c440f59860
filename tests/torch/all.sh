#!/bin/bash
# all.sh BUILD_DIR: the tests that need PyTorch. Skipped with a notice where the packages cannot be downloaded.
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
export TEST_JOBS=1 # the rows use both cores themselves
exec tests/run.sh "python3 tests/card/layouts_check.py $1/release/tests/card/dump_layouts" \
  "tests/torch/values.sh $1/release/plimsoll $environment" \
  "python3 tests/torch/rows.py $1/release/plimsoll $environment" \
  "python3 tests/torch/caps.py $1/release/plimsoll $environment" \
  "python3 tests/torch/seeds.py $1/release/plimsoll $environment" \
  "python3 tests/torch/profile.py $1/release/plimsoll $environment" \
  "python3 tests/torch/plan.py $1/release/plimsoll $environment" \
  "python3 tests/torch/launchers.py $1/release/plimsoll $environment" \
  "python3 tests/torch/world.py $1/release/plimsoll $environment" \
  "python3 tests/torch/times.py $1/release/plimsoll $environment"
