#!/bin/bash
# lint.sh: rules that the compiler does not check. One test per rule.
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0

# rule NAME COMMAND...: passes if the command prints nothing.
rule() {
  local name=$1 found
  shift
  found=$("$@" 2>&1)
  if [ -z "$found" ]; then
    passed=$((passed + 1))
    echo "ok   $name"
  else
    failed=$((failed + 1))
    printf '%s\nFAIL %s\n' "$found" "$name"
  fi
}

badly_formatted() {
  local file
  tools/sources.sh | while read -r file; do
    clang-format "$file" | cmp -s "$file" - || echo "$file: run make format"
  done
}
sideways_includes() { grep -rnE '#include "(\.\./|.*/\.\./)' include src; }
library_prints() {
  grep -rnE '(^|[^a-z_>.])((printf|puts|putchar|perror|exit|abort)\(|fprintf\((stdout|stderr))' \
    --include='*.[ch]' src/core src/io src/system | grep -vE 'format\(printf|^[^:]*:[0-9]+: *//'
}

rule "sources are formatted" badly_formatted
rule "no include climbs out of its room" sideways_includes
rule "nothing outside src/cli prints or exits" library_prints

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
