# Syntax is checked where the shell is there; the rows must be there anyhow.
$PLIMSOLL completion zsh >zsh.script
$PLIMSOLL completion fish >fish.script
! command -v zsh >/dev/null || zsh -n zsh.script
! command -v fish >/dev/null || fish -n fish.script
grep -e "--limit=" zsh.script
grep -e "-l limit" fish.script
