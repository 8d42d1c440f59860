# The short help of the commands with many options: what most people need. The full one has a line for each choice.
$PLIMSOLL plan -h
$PLIMSOLL estimate -h
$PLIMSOLL estimate --help | sed -n '/^  --mask/,/^  -o/p; /^  --loss /,/^  --loss-chunk/p; /^  --prepare/,/^  --offload/p; /^  --loop/,/^  --steps/p'
$PLIMSOLL man estimate | sed -n '/loop manual/,/^\.TP/p'
for shell in zsh fish; do $PLIMSOLL completion $shell | grep -c 'training loop (default'; done
