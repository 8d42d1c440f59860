#!/bin/bash
# manual.sh [--check] [PAGE...]: runs the commands that README.md and the pages of docs/ name in their "run:" comments and puts
# what they print below them; draws their picture. --check changes nothing and counts the pages that are up to date.
cd "$(dirname "$0")/.." || exit 2
check=
[ "${1:-}" = --check ] && check=1 && shift
pages=("$@")
[ $# -gt 0 ] || mapfile -t pages < <(grep -l '^<!-- run: ' README.md docs/*.md docs/*/*.md)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The same output on every machine.
export LC_ALL=C HF_HOME=$work XDG_CACHE_HOME=$work PLIMSOLL_NVML=none PLIMSOLL_ROOT=$PWD/tests/fixtures/check/machine
unset COLUMNS CLICOLOR_FORCE PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF

passed=0 failed=0
compare() { # OLD NEW
  if [ -z "$check" ]; then
    cmp -s "$1" "$2" || { cp "$2" "$1" && echo "written: $1"; }
  elif diff -u "$1" "$2"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "$1 is out of date: make manual"
  fi
}
for page in README.md docs/*.md docs/*/*.md; do
  if grep -A1 '^<!-- [a-z]*: .* -->$' "$page" | grep -q '^<!-- end -->$'; then
    echo "$page has a command without its output: make manual, or make simulated"
    failed=$((failed + 1))
  fi
done
for page in "${pages[@]}"; do
  tools/fresh_blocks.sh run "$page" >"$work/page.md"
  compare "$page" "$work/page.md"
done
build/plimsoll replay tests/truth/snapshots/stacks-leak-logits.pickle.xz --svg "$work/leak.svg" >/dev/null
compare docs/images/leak.svg "$work/leak.svg"
[ -z "$check" ] || echo "$passed passed, $failed failed"
[ $failed = 0 ]
