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
  tools/sources.sh | xargs -P "$(nproc)" -n 50 clang-format --dry-run --Werror || echo "run make format"
}
sideways_includes() { grep -rnE '#include "(\.\./|.*/\.\./)' include src; }
library_prints() {
  grep -rnE '(^|[^a-z_>.])((printf|puts|putchar|perror|exit|abort)\(|fprintf\((stdout|stderr))' \
    --include='*.[ch]' src/core src/io src/system src/app | grep -vE 'format\(printf|^[^:]*:[0-9]+: *//'
}

foreign_impl_headers() {
  local file name folder
  find src -name '*_impl.h' | while read -r file; do
    name=${file##*/} folder=${file%/*}
    grep -rlF "#include \"$name\"" src --include='*.[ch]' | grep -v "^$folder/[^/]*$"
  done
}
names_used_twice() { find src -name '*.[ch]' -printf '%f\n' | sort | uniq -d; }
# Short names of tensors' operations are ordinary words: only programs on the tape include them.
short_names_elsewhere() {
  grep -rlE '#include "(tape|op)_names.h"' src |
    grep -vE '^src/core/(tape|ops|modules|families|optimizers|sharding|loops)/'
  grep -rnE '^ *# *define [a-z]' src --include='*.h' |
    grep -vE '^src/core/(base/vec|tape/tape_names|ops/op_names)\.h:|define plim_'
}

rule "sources are formatted" badly_formatted
rule "no include climbs out of its room" sideways_includes
rule "what is private to a folder stays there" foreign_impl_headers
rule "every file name says one thing" names_used_twice
rule "short names stay on the tape" short_names_elsewhere
rule "nothing outside src/cli prints or exits" library_prints

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
