#!/bin/bash
# terminal.sh PROGRAM: runs the command lines of golden/ on a terminal. At 80 columns no line is longer, except commands
# to paste; at 60 columns nothing is lost and nothing crashes.
set -u
here=$(dirname "$(realpath "$0")")
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# The outputs differ from those of golden/ in line ends and colours, so only the log counts.
on_terminal() {
  local columns=$1 least=$2 names=() script
  shift 2
  mkdir "$work/$columns"
  ln -s "$(dirname "$program")"/*.so "$work/$columns/"
  printf '#!/bin/bash\nexec env -u COLUMNS TERM=xterm python3 %q %s %q %q "$@"\n' "$here/on_terminal.py" \
    "$columns" "$work/log$columns" "$program" >"$work/$columns/plimsoll"
  chmod +x "$work/$columns/plimsoll"
  for script in "${@/#/$here/golden/}"; do names+=("$(basename "$script" .sh)"); done
  "$here/golden.sh" "$work/$columns/plimsoll" "${names[@]}" >/dev/null
  local found runs
  runs=$(grep -c '^\$' "$work/log$columns")
  found=$(grep -B1 '^  ' "$work/log$columns")
  [ "$runs" -ge "$least" ] || found="only $runs commands ran"
  if [ -z "$found" ]; then
    passed=$((passed + 1)) && echo "ok   $runs commands on $columns columns"
  else
    failed=$((failed + 1)) && printf '%s\nFAIL %s columns\n' "$found" "$columns"
  fi
}

# The progress line of a program that does not use the card: each is written over the one before, the last one is removed.
progress() {
  local shown line='[0-9.]+ m?s, starting *'
  shown=$(XDG_STATE_HOME=$work/state env -u COLUMNS TERM=xterm python3 "$here/on_terminal.py" 80 "$work/log" "$program" \
    simulate --unsandboxed --gpu 4090 -- sleep 0.5 2>&1 >/dev/null | tr '\r' '|')
  if grep -qxE "(\|$line\|)+\| *\|" <<<"$shown"; then
    passed=$((passed + 1)) && echo "ok   the progress line is written over itself"
  else
    failed=$((failed + 1)) && printf '%s\nFAIL the progress line\n' "$shown"
  fi
}

# What run says is folded on the terminal, and whole in its log.
run_lines() {
  local found log
  (cd "$work" && XDG_STATE_HOME=$work/runs PLIMSOLL_NVML=/nowhere env -u COLUMNS TERM=xterm python3 "$here/on_terminal.py" 80 \
    "$work/run" "$program" run -- "$(dirname "$program")/fake_trainer" --max_steps 3 --end kill >/dev/null 2>&1)
  found=$(grep '^  ' "$work/run")
  log=$(cat "$work"/runs/plimsoll/run/*/log)
  if [ -z "$found" ] && grep -q '^plimsoll: the process was killed (signal 9).* because .*killed it' <<<"$log"; then
    passed=$((passed + 1)) && echo "ok   what run says on 80 columns"
  else
    failed=$((failed + 1)) && printf '%s\n%s\nFAIL what run says on 80 columns\n' "$found" "$log"
  fi
}

if ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
  printf 'skipped: no terminal can be opened here\n0 passed, 0 failed, 1 skipped\n'
  exit 0
fi
cd "$here/golden" || exit 2
# One of each kind of report is enough.
on_terminal 80 150 {help,command,undo}_*.sh watch_once.sh check_{broken,machine,mistakes,ready,verdicts,words,yaml}.sh estimate_{fits,flash,names,sharded,unverified}.sh \
  explain_{real_shortage,late,mistakes,nccl}.sh \
  replay_{leak,mistakes,pools,what_if_oom}*.sh apply_again.sh \
  plan_{fsdp_of_trainer,mistakes,nothing_fits,try}.sh
on_terminal 60 60 help_{full,short}.sh command_*.sh check_{ready,verdicts}.sh estimate_{fits,names}.sh plan_try.sh
progress
run_lines

# explain without a file reads standard input; on a terminal it says what to type instead of waiting.
said=$(timeout 600 python3 -c 'import pty, subprocess, sys
done = subprocess.run([sys.argv[1], "explain"], stdin=pty.openpty()[1], capture_output=True, text=True)
print(done.returncode, done.stderr)' "$program")
if [[ $said == "2 error: no log was given"*"plimsoll explain train.log"* ]]; then
  passed=$((passed + 1)) && echo "ok   explain on a terminal without a file"
else
  failed=$((failed + 1)) && printf '%s\nFAIL explain on a terminal without a file\n' "$said"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
