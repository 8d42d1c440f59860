# Sources the script, presses TAB, and prints what is offered.
$PLIMSOLL completion bash >script
bash -n script && source ./script
touch snap.pickle
offered() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _plimsoll
  echo "$*<TAB>: ${COMPREPLY[*]}"
}
offered plimsoll re
offered plimsoll --ver
offered plimsoll replay --al
offered plimsoll replay --color = al
offered plimsoll replay --color ne
offered plimsoll replay sna
offered plimsoll replay --svg sna
offered plimsoll replay --limit ""
offered plimsoll --json completion ""
offered plimsoll help ver
offered plimsoll replay help
offered plimsoll help mo
offered plimsoll estimate --model tiny
offered plimsoll estimate -m sna
offered plimsoll plan --gpu RTX-40
offered plimsoll check -g A100
offered plimsoll plan --allow se
offered plimsoll plan --fix check
