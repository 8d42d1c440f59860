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

# tests/truth/README.md says how many recordings each folder has.
recordings_miscounted() {
  sed -n 's/^| `\([a-z_]*\)\/` | \([0-9]*\) |.*/\1 \2/p' tests/truth/README.md | while read -r folder said; do
    files=(tests/truth/"$folder"/*.json)
    [ "${#files[@]}" -eq "$said" ] || echo "tests/truth/README.md: $folder has ${#files[@]} recordings, not $said"
  done
}
badly_formatted() {
  tools/sources.sh | xargs -P "$(nproc)" -n 50 clang-format --dry-run --Werror || echo "run make format"
}
sideways_includes() { grep -rnE '#include "(\.\./|.*/\.\./)' include src; }
library_prints() {
  grep -rnE '(^|[^a-z_>.])((printf|puts|putchar|perror|exit|abort)\(|fprintf\((stdout|stderr))' \
    --include='*.[ch]' src/core src/card src/hook src/io src/system src/app | grep -vE 'format\(printf|^[^:]*:[0-9]+: *//'
}
# The package of that name on PyPI is not ours.
strangers_package() { git grep -nE 'pip[3]? install[^|#]* plimsoll( |$|`|"|=)|additional_dependencies: \[plimsoll\b' -- ':!tests/lint.sh'; }
# qsort orders equal elements differently from one C library to the next.
unstable_sorts() { grep -rnE '\bqsort(_r)?\(' src; }

foreign_impl_headers() {
  local file name folder
  find src -name '*_impl.h' | while read -r file; do
    name=${file##*/} folder=${file%/*}
    grep -rlF "#include \"$name\"" src --include='*.[ch]' | grep -v "^$folder/[^/]*$"
  done
}
names_used_twice() {
  find src -name '*.[ch]' -printf '%f\n' | sort | uniq -d
  grep -rhoE '^(\}|typedef vec\(.*\)) plim_[a-z_0-9]+;' src | sed 's/.* //' | sort | uniq -d
}
# The short names of tensor operations are ordinary words, so only code that runs on the tape includes them.
short_names_elsewhere() {
  grep -rlE '#include "(tape|op)_names.h"' src |
    grep -vE '^src/core/(tape|ops|modules|blocks|families|optimizers|sharding|loops)/'
  grep -rnE '^ *# *define [a-z]' src --include='*.h' |
    grep -vE '^src/(core/base/vec|core/tape/tape_names|core/ops/op_names|cli/base/disarmed_stdio)\.h:|define plim_'
}

# Code outside the families names one only to translate a foreign format to it (Megatron's flags, torchtune's builders),
# as an example in a hint, or to probe with a model of the catalogue. "opt" is also what scripts call their arguments.
families_named_elsewhere() {
  local names file
  names=$(sed -n 's/^  X(\([a-z0-9_]*\)).*/\1/p' src/core/families/families.h | paste -sd'|')
  [ -n "$names" ] || echo "src/core/families/families.h: no list of families"
  find src -name '*.[ch]' ! -path 'src/core/families/*' ! -path 'src/core/catalogue/*' |
    while read -r file; do
      sed 's|//.*||' "$file" | grep -nE "\"($names)\"|model_type=($names)\>|strcmp\(.*->model_type" |
        sed "s|^|$file:|"
    done |
    grep -vE '^src/io/project/read/project_(megatron|shape)\.c:' |
    grep -vE '^src/io/project/read/project_loads\.c:.*"opts"' |
    grep -vE '^src/io/model/model_config\.c:.*hint|^src/cli/check/cmd_check\.c:.*probe\.model'
}

rule "the recordings are counted" recordings_miscounted
rule "sources are formatted" badly_formatted
rule "no include climbs out of its room" sideways_includes
rule "what is private to a folder stays there" foreign_impl_headers
rule "every file and type name says one thing" names_used_twice
rule "short names stay on the tape" short_names_elsewhere
rule "families are named in their own files" families_named_elsewhere
rule "nobody is told to install another project of that name" strangers_package
rule "sorts keep the order of equals" unstable_sorts
rule "nothing outside src/cli prints or exits" library_prints

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
