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
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for test in rows plan; do
  python3 "tests/torch/$test.py" "$1/release/plimsoll" "$environment" | tee -a "$out"
done
awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3; tests++ }
  END { failed += 2 - tests; printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }' "$out"
