#!/bin/bash
# run.sh COMMAND...: runs test programs and adds up the "N passed, N failed[, N skipped]" that each prints on its last
# line. A program that crashes, has no such line, or hangs for TEST_SECONDS (an hour) counts as one failure. Prints one
# line per program with its seconds, all output of those that fail, and the total on the last line.
set -u
export ASAN_OPTIONS=abort_on_error=0:detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1

passed=0 failed=0 skipped=0
summary='^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# count STATUS LOG: adds the log's last line to the totals; fails if the program did.
count() {
  local status=$1 last
  last=$(tail -n 1 "$2")
  if ! [[ $last =~ $summary ]]; then
    failed=$((failed + 1)) verdict="no summary, exit $status"
    return 1
  fi
  local ok=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]} left_out=${BASH_REMATCH[4]:-0}
  # A leak is reported only at exit.
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1 last="$last, but exit $status"; fi
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left_out)) verdict=$last
  [ "$bad" -eq 0 ]
}

# start NUMBER COMMAND: runs it in the background; writes its output, its seconds and then its status to the folder.
start() {
  { began=$SECONDS
    timeout "${TEST_SECONDS:-3600}" $2 >"$logs/$1" 2>&1 </dev/null
    status=$?
    echo $((SECONDS - began)) >"$logs/$1.seconds"
    echo $status >"$logs/$1.status"
  } &
}

tell() {
  if count "$(cat "$logs/$1.status")" "$logs/$1"; then
    grep -E '^(skip(ped)?|known)[: ]' "$logs/$1"
  else
    grep -v '^ok  ' "$logs/$1"
  fi
  echo "${2:0:150}: $verdict, $(cat "$logs/$1.seconds") s"
}

# Runs as many at a time as there are processors, and reports in the order of the arguments.
commands=("$@") told=0
tell_finished() {
  while ((told < ${#commands[@]})) && [ -e "$logs/$told.status" ]; do
    tell $told "${commands[told]}"
    told=$((told + 1))
  done
}
for ((i = 0; i < ${#commands[@]}; i++)); do
  while (($(jobs -rp | wc -l) >= ${TEST_JOBS:-$(nproc)})); do wait -n; done
  tell_finished
  start $i "${commands[i]}"
done
wait
tell_finished

[ $skipped -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
