#!/bin/bash
# edits.sh DUMP_EDITS: changes every setting of our samples, and of every fourth of other people's configs if they are
# available, and reads the results with PyYAML and json. tests/io/dialect/dialect_check.py changes the knobs of all.
cd "$(dirname "$0")/../../.." || exit 2
dump=$1
shopt -s nullglob

files=(tests/io/formats/samples/*.yaml tests/io/formats/samples/*.json)
configs=(../shared/configs/*.yaml ../shared/configs/*.yml ../shared/configs/*.json)
[ ${#configs[@]} -gt 0 ] || echo "skipped: other people's configs are not in ../shared/configs"

python=python3
"$python" -c 'import yaml' 2>/dev/null || python=/usr/bin/python3 # which has Debian's PyYAML

some=()
for ((i = 0; i < ${#configs[@]}; i += 4)); do some+=("${configs[i]}"); done

edits=$(mktemp)
trap 'rm -f "$edits"' EXIT
if ! "$dump" "${files[@]}" "${some[@]}" >"$edits"; then
  echo "FAIL an edit was refused"
  echo "0 passed, 1 failed"
  exit 1
fi
"$python" tests/io/tree/yaml_check.py <"$edits"
