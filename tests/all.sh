#!/bin/bash
# all.sh BUILD_DIR: runs all tests against the presets built in BUILD_DIR.
cd "$(dirname "$0")/.." || exit 2
build=$1
shopt -s nullglob

configs=$build/configs
rm -rf "$configs" && python3 tests/configs/generate.py "$configs"

commands=(tests/lint.sh tests/wasm.sh "tools/manual.sh --check" "python3 tests/cli/examples_check.py $build/release/plimsoll" "tools/accuracy.py --check $build/plimsoll"
  "python3 tests/tools/compare_check.py $build/plimsoll"
  "python3 tests/io/formats/edit_check.py $build/release/tests/io/formats/dump_edit_readers"
  "python3 tests/card/layouts_check.py $build/release/tests/card/dump_layouts"
  "python3 tests/card/hook_check.py" "python3 tests/card/peaks_check.py" "python3 tests/card/savers_check.py"
  "python3 tests/card/modules_check.py"
  "python3 tests/io/shell/shell_check.py $build/release/tests/io/shell/dump_shell_flags"
  "python3 tests/io/launch/make_check.py $build/release/tests/io/launch/dump_launch"
  "python3 tests/io/python/arguments_check.py $build/release/tests/io/python/dump_knobs"
  "python3 tests/io/dialect/dialect_check.py $build/release/tests/io/dialect/dump_dialects tests/fixtures $configs ../shared/configs"
  "python3 tests/io/dialect/census.py $build/release/tests/io/dialect/dump_keys $build/release/plimsoll tests/fixtures $configs ../shared/configs"
  "python3 tests/app/library/library_check.py $build"
  "python3 tests/cli/said_check.py $build/release/plimsoll ../shared/configs"
  "python3 tests/cli/configs.py $build/release/plimsoll $configs ../shared/configs")
# The longest tests come first, so that none runs alone at the end.
commands+=("tests/cli/golden.sh $build/release/plimsoll" "tests/cli/terminal.sh $build/release/plimsoll"
  "python3 tests/cli/run/run.py $build/release/plimsoll $build/release/fake_trainer"
  "python3 tests/cli/run/terminal.py $build/release/plimsoll $build/release/fake_trainer"
  "python3 tests/cli/watch_check.py $build/release/plimsoll"
  "python3 tests/cli/fetch_check.py $build/release/plimsoll" "python3 tests/cli/team_check.py $build/release/plimsoll"
  "tests/installing.sh $build"
  "tests/io/formats/edits.sh $build/release/tests/io/formats/dump_edits")
# Under sanitizers: every command, without the long searches.
short=$(cd tests/cli/golden && ls apply_{again,share_accelerate}.sh plan_{json,mistakes,one_gpu,trial_mistakes,try}.sh \
  {check,color,command,completion,estimate,explain,help,man,output,replay,undo,version,watch}*.sh |
  grep -vxE '(check_(as_plan|flash)|estimate_(eighths|many_passes)|undo_without_backup)\.sh' | tr '\n' ' ')
commands+=("tests/cli/golden.sh $build/asan/plimsoll ${short//.sh/}")
# Each test program once: under sanitizers, or without them where that takes too long (long_tests in CMakeLists.txt).
while IFS= read -r program; do
  sanitized=$build/asan/tests/$program
  if [ -x "$sanitized" ]; then commands+=("$sanitized"); else commands+=("$build/release/tests/$program"); fi
done < <(cd "$build" && find asan/tests release/tests -name 'test_*' -type f -printf '%P\n' | sort -u)
for program in "$build"/asan/tests/fuzz/fuzz_*; do commands+=("tests/fuzz.sh $program"); done

exec tests/run.sh "${commands[@]}"
