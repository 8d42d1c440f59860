#!/bin/bash
# install.sh BUILD_DIR PREFIX: copies what `make build` left in BUILD_DIR to where systems look.
# install.sh --remove PREFIX: removes what it put there, with the folders that it made unless they have other files.
set -e
root=$(dirname "$0")/..

# What is installed, each by a line: the mode, the file, and its place below PREFIX.
list() {
  local build=$1 file
  line 755 "$build/release/plimsoll" bin/plimsoll
  for file in "$build"/release/card/lib*.so "$build"/release/card/python/*.py; do
    line 644 "$file" "lib/plimsoll/${file#"$build"/release/card/}"
  done
  for file in "$build"/man/*.1; do line 644 "$file" "share/man/man1/${file##*/}"; done
  line 644 "$build/completions/plimsoll.bash" share/bash-completion/completions/plimsoll
  line 644 "$build/completions/_plimsoll" share/zsh/site-functions/_plimsoll
  line 644 "$build/completions/plimsoll.fish" share/fish/vendor_completions.d/plimsoll.fish
  line 644 "$root/include/plimsoll.h" include/plimsoll.h
  line 644 "$build/release/plimsoll.pc" lib/pkgconfig/plimsoll.pc
  for file in "$build"/release/libplimsoll.so*; do line 644 "$file" "lib/${file##*/}"; done
  if [ -e "$build/plimsoll.html" ]; then line 644 "$build/plimsoll.html" share/plimsoll/plimsoll.html; fi # after make web
  line 644 "$root/LICENSE" share/doc/plimsoll/copyright
}
line() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# What was put there, for --remove: "file PATH" and "folder PATH" from PREFIX, the folders in the order in which they were made.
record=lib/plimsoll/installed

recorded() { if [ -e "$prefix/$record" ]; then sed -n "s/^$1 //p" "$prefix/$record"; fi; }
remove_files() { recorded file | while read -r place; do rm -f "$prefix/$place"; done; }

make_folder() {
  [ ! -d "$1" ] || return 0
  make_folder "$(dirname "$1")"
  mkdir "$1"
  made+=("$(realpath -m --relative-to="$prefix" "$1")")
}

copy() {
  mapfile -t made < <(recorded folder)
  remove_files # those of another version may have other names
  make_folder "$prefix/$(dirname $record)"
  while IFS=$'\t' read -r mode file place; do
    make_folder "$(dirname "$prefix/$place")"
    if [ -L "$file" ]; then cp -P "$file" "$prefix/$place"; else install -m "$mode" "$file" "$prefix/$place"; fi
  done < <(list "$1")
  { list "$1" | sed 's/.*\t/file /' && printf 'folder %s\n' "${made[@]}"; } >"$prefix/$record"
}

remove() {
  if [ ! -e "$prefix/$record" ]; then
    echo "error: there is no plimsoll in $prefix, or its list of files is missing: $prefix/$record" >&2
    echo "help: make uninstall PREFIX=... with the PREFIX and DESTDIR of make install" >&2
    exit 2
  fi
  mapfile -t made < <(recorded folder)
  remove_files
  rm -f "$prefix/$record"
  for ((i = ${#made[@]} - 1; i >= 0; i--)); do
    rmdir "$(realpath -m "$prefix/${made[i]}")" 2>/dev/null || true # it has other files
  done
}

prefix=$(realpath -m "$2")
if [ "$1" = --remove ]; then remove; else copy "$1"; fi
