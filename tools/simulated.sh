#!/bin/bash
# simulated.sh: runs the commands of docs/unknown-model.md again, with the packages of tests/torch/packages.txt.
cd "$(dirname "$0")/.." || exit 2
environment=$(tests/torch/environment.sh) || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C XDG_STATE_HOME=$work PATH=$PWD/build:$environment/bin:$PATH
unset COLUMNS CLICOLOR_FORCE
cp tests/fixtures/simulate/sft.py "$work/train.py"
page=$PWD/docs/unknown-model.md blocks=$PWD/tools/fresh_blocks.sh
(cd "$work" && "$blocks" "$page") >"$work/page.md" && sed "s|$work|~/.local/state|g" "$work/page.md" >"$page"
