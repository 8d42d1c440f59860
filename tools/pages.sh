#!/bin/bash
# pages.sh PROGRAM DIR: writes the man pages and shell completions, which the program generates.
set -e
program=$1 dir=$2
mkdir -p "$dir/man" "$dir/completions"
"$program" man --dir "$dir/man"
"$program" completion bash >"$dir/completions/plimsoll.bash"
"$program" completion zsh >"$dir/completions/_plimsoll"
"$program" completion fish >"$dir/completions/plimsoll.fish"
