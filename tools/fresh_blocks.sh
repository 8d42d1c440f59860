#!/bin/bash
# fresh_blocks.sh KIND FILE: prints the file with the output of each command that it names in a comment <!-- KIND: COMMAND -->
# below it, up to "<!-- end -->". What follows a " | " in a command is not shown.
kind=$1 skipping=
while IFS= read -r line; do
  if [ "$line" = "<!-- end -->" ]; then skipping=; fi
  [ -n "$skipping" ] || printf '%s\n' "$line"
  if [[ $line == "<!-- $kind: "*" -->" ]]; then
    command=${line#"<!-- $kind: "}
    command=${command% -->}
    printf '```\n$ %s\n%s\n```\n' "${command%% | *}" "$(bash -c "$command" 2>&1)"
    skipping=1
  fi
done <"$2"
