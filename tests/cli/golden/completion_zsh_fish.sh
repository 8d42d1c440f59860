# Syntax is checked where the shell is there; the rows must be there anyhow.
$PLIMSOLL completion zsh >zsh.script
$PLIMSOLL completion fish >fish.script
! command -v zsh >/dev/null || zsh -n zsh.script
! command -v fish >/dev/null || fish -n fish.script
grep -e "--limit=" zsh.script
grep -e "-l limit" fish.script
grep -c -e "plimsoll_models=(llama-3.2-1b " -e "'--model=.*{compadd -- .plimsoll_models; _files}'" zsh.script
grep -c -e "^set -g plimsoll_cards GTX-1080-Ti " -e "-l gpu -s g -x -f -a '.plimsoll_cards'" fish.script
