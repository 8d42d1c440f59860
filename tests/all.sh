#!/bin/bash
# all.sh BUILD_DIR: every test there is, against the presets built in BUILD_DIR.
cd "$(dirname "$0")/.." || exit 2
build=$1
shopt -s nullglob

commands=(tests/lint.sh tests/wasm.sh "tools/readme.sh --check" "tools/accuracy.py --check $build/plimsoll"
  "python3 tests/io/formats/edit_check.py $build/release/tests/io/formats/dump_edit_readers"
  "python3 tests/io/shell/shell_check.py $build/release/tests/io/shell/dump_shell_flags"
  "python3 tests/io/dialect/dialect_check.py $build/release/tests/io/dialect/dump_dialects ../shared/configs tests/fixtures"
  "python3 tests/io/python/arguments_check.py $build/release/tests/io/python/dump_knobs"
  "python3 tests/cli/configs.py $build/release/plimsoll ../shared/configs")
for preset in release asan; do
  while IFS= read -r program; do commands+=("$program"); done \
    < <(find "$build/$preset/tests" -name 'test_*' -type f | sort)
  commands+=("tests/cli/golden.sh $build/$preset/plimsoll")
done
commands+=("tests/cli/terminal.sh $build/release/plimsoll")
commands+=("tests/io/formats/edits.sh $build/release/tests/io/formats/dump_edits")
for program in "$build"/fuzz/tests/fuzz/fuzz_*; do commands+=("tests/fuzz.sh $program"); done

exec tests/run.sh "${commands[@]}"
