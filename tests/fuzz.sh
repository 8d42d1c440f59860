#!/bin/bash
# fuzz.sh TARGET: runs a fuzz target for FUZZ_SECONDS (20) on a copy of its corpus. One test: it passes if nothing
# crashes, leaks or hangs; twenty minutes for one input count as a hang even on a busy machine. A failing input is kept
# and named. FUZZ_SEED (1) fixes the sequence of inputs, so that a test run is repeatable; 0 takes another one each time.
set -u
target=$(realpath "$1")
name=${target##*/}
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d "${TMPDIR:-/tmp}/$name.XXXXXX")

mkdir "$work/corpus"
for corpus in "$here/fuzz/corpus/$name" "$here/fuzz/corpus/${name#fuzz_}"; do
  [ -d "$corpus" ] && cp -r "$corpus/." "$work/corpus"
done

if [ -z "$(ls -A "$work/corpus")" ]; then
  echo "FAIL $name has no corpus: tests/fuzz/corpus/$name"
  echo "0 passed, 1 failed"
  exit 1
fi
cd "$work" || exit 2
if "$target" -seed="${FUZZ_SEED:-1}" -max_total_time="${FUZZ_SECONDS:-20}" -timeout=1200 -rss_limit_mb=2048 -verbosity=0 \
  -close_fd_mask=1 -artifact_prefix="$work/" corpus >"$work/log" 2>&1; then
  rm -rf "$work"
  echo "ok   $name"
  echo "1 passed, 0 failed"
else
  tail -n 60 "$work/log"
  echo "FAIL $name: the input is in $work"
  echo "0 passed, 1 failed"
  exit 1
fi
