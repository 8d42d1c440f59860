#!/bin/bash
# golden.sh [--bless] PROGRAM [NAME...]: runs the command lines golden/NAME.sh and compares with NAME.exit,
# NAME.stdout.exact and NAME.stderr.exact; a missing file means that the output is empty.
# --bless writes those files from the present output.
#
# Each runs in an empty directory with links `truth` and `fixtures` to those of tests/. $PLIMSOLL is the program;
# `part NAME` prints a heading and goes on in a new directory with the same links. Nothing of the caller's environment
# that plimsoll reads is left, and there is no cache of models.
set -u
bless=false
if [ "$1" = --bless ]; then bless=true && shift; fi
here=$(dirname "$(realpath "$0")")
PLIMSOLL=$(realpath "$1") && shift
golden=$here/golden
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for variable in $(compgen -e); do
  case $variable in
  CUDA_* | PYTORCH_* | HF_* | HUGGINGFACE_* | TRANSFORMERS_* | PLIMSOLL_* | XDG_* | LC_*) unset "$variable" ;;
  esac
done
unset NO_COLOR CLICOLOR_FORCE CLICOLOR COLUMNS MANWIDTH
export PLIMSOLL LC_ALL=C here golden work HF_HOME=$work/nowhere

# run NAME: writes stdout, stderr and exit to $work/NAME/.
run() {
  local out=$work/$1
  mkdir -p "$out/cwd"
  ln -s "$here/../truth" "$out/cwd/truth"
  ln -s "$here/../fixtures" "$out/cwd/fixtures"
  (cd "$out/cwd" && bash "$golden/$1.sh" >"$out/stdout.exact" 2>"$out/stderr.exact" </dev/null)
  echo $? >"$out/exit"
}

accept() {
  local name=$1 part
  for part in exit stdout.exact stderr.exact; do
    if [ -s "$work/$name/$part" ]; then
      cp "$work/$name/$part" "$golden/$name.$part"
    else
      rm -f "$golden/$name.$part"
    fi
  done
}

matches() {
  local name=$1 part want same=true
  for part in exit stdout.exact stderr.exact; do
    want=$golden/$name.$part
    [ -e "$want" ] || want=/dev/null
    diff -u --label "$name.$part (expected)" --label "$name.$part (got)" \
      "$want" "$work/$name/$part" || same=false
  done
  $same
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for script in "$golden"/*.sh; do names+=("$(basename "$script" .sh)"); done
fi
for name in "${names[@]}"; do
  [ -e "$golden/$name.sh" ] || { echo "there is no $golden/$name.sh" >&2 && exit 2; }
done

part() { echo "== $1" && mkdir "$1" && cd "$1" && ln -s ../truth ../fixtures .; }

export -f run part
printf '%s\n' "${names[@]}" | sort -u | xargs -P "$(nproc)" -I{} bash -c 'run {}'

passed=0 failed=0
for name in "${names[@]}"; do
  if $bless; then accept "$name"; fi
  if matches "$name"; then
    passed=$((passed + 1)) && echo "ok   $name"
  else
    failed=$((failed + 1)) && echo "FAIL $name"
  fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
