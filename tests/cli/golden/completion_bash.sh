# Sources the script, simulates TAB, and prints the completions.
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
# The syntax is checked if the shell is installed; the rows must exist in any case.
$PLIMSOLL completion zsh >zsh.script
$PLIMSOLL completion fish >fish.script
! command -v zsh >/dev/null || zsh -n zsh.script
! command -v fish >/dev/null || fish -n fish.script
grep -e "--limit=" zsh.script
grep -e "-l limit" fish.script
grep -c -e "plimsoll_models=(llama-3.2-1b " -e "'--model=.*{compadd -- .plimsoll_models; _files}'" zsh.script
grep -c -e "^set -g plimsoll_cards GTX-1080-Ti " -e "-l gpu -s g -x -f -a '.plimsoll_cards'" fish.script
$PLIMSOLL completion bash --json | sed "3s/: .*/: .../"
