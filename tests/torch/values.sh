#!/bin/bash
# values.sh PLIMSOLL ENVIRONMENT: tests/card/values_check.py on a simulated card. The last line is "N passed, N failed".
check=$(realpath "$(dirname "$0")/../card/values_check.py")
"$1" simulate --gpu H200 --verbose -- "$2/bin/python" "$check" 2>&1 >/dev/null | grep -vE '^(error|help):'
