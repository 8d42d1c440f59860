#!/bin/bash
# readme.sh [--check]: runs the commands that README.md names in its "run:" comments and puts what they
# print below them; draws its picture. --check changes nothing and fails if anything is out of date.
cd "$(dirname "$0")/.." || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
unset COLUMNS CLICOLOR_FORCE

tools/fresh_blocks.sh README.md >"$work/README.md"
build/plimsoll replay tests/truth/snapshots/stacks-leak-logits.pickle.xz --svg "$work/leak.svg" >/dev/null

if [ "${1:-}" = --check ]; then
  status=0
  diff -u README.md "$work/README.md" && cmp docs/images/leak.svg "$work/leak.svg" || status=1
  [ $status = 0 ] || echo "README.md is out of date: make readme"
  [ $status = 0 ] && echo "1 passed, 0 failed" || echo "0 passed, 1 failed"
  exit $status
fi
cp "$work/README.md" README.md
cp "$work/leak.svg" docs/images/leak.svg
