#!/bin/bash
# python.sh VERSION FOLDER PATCHELF: prints the path of a Python of this version: of this machine, or else of a Debian release
# that has it, unpacked into FOLDER with the libraries that it needs. Exits with 3 if there is none.
set -euo pipefail
version=$1 folder=$2 patchelf=$3
for found in "$(command -v "python$version" || true)" ~/.pyenv/versions/"$version".*/bin/python3; do
  if [ -x "$found" ] && "$found" -c "import sys, venv; sys.exit(sys.version_info[:2] != tuple(map(int, '$version'.split('.'))))" 2>/dev/null; then
    echo "$found"
    exit 0
  fi
done
case $version in
3.9) release=bullseye ;;
3.11) release=bookworm ;;
3.13) release=trixie ;;
3.14) release=forky ;;
*) exit 3 ;;
esac

root=$folder/python$version
if [ ! -e "$root/complete" ]; then
  apt=$root/apt
  rm -rf "$root" && mkdir -p "$apt"/{lists.d,state/lists/partial,cache/archives/partial}
  touch "$apt/status"
  printf 'Types: deb\nURIs: http://deb.debian.org/debian\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$release" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$apt/lists.d/debian.sources"
  options=(-qq -y -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/lists.d" -o Dir::State="$apt/state"
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
  { apt-get "${options[@]}" update && apt-get "${options[@]}" install --download-only --no-install-recommends "python$version"; } >&2 || exit 3
  for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  loader=$(find "$root" -name 'ld-linux-*.so.*' | head -n 1)
  libraries=$(find "$root" -name 'libc.so.6' -printf '%h:' -o -name 'libexpat.so.1' -printf '%h:')
  "$patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "${libraries%:}" "$root/usr/bin/python$version"
  rm -rf "$apt"
  touch "$root/complete"
fi
echo "$root/usr/bin/python$version"
