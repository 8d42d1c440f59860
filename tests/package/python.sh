#!/bin/bash
# python.sh VERSION FOLDER PATCHELF: prints the path of a Python of this version: that of the Debian release that has it, from
# where this machine gets its Debian packages, unpacked into FOLDER with the C library and all else that it needs, or one of
# this machine. Exits with 3 if there is none.
set -euo pipefail
version=$1 root=$2/python$1 patchelf=$3 more=

case $version in
3.9) release=bullseye more=python3-distutils ;; # pip needs it
3.11) release=bookworm ;;
3.13) release=trixie ;;
3.14) release=forky ;;
*) release= ;;
esac

unpack() {
  local apt=$root/apt mirror options loader libraries
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
  [ -n "$mirror" ] || return
  rm -rf "$root" && mkdir -p "$apt"/{lists.d,state/lists/partial,cache/archives/partial}
  touch "$apt/status"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$release" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$apt/lists.d/debian.sources"
  options=(-qq -y -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/lists.d" -o Dir::State="$apt/state"
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update &&
    apt-get "${options[@]}" install --download-only --no-install-recommends "python$version" $more || return
  for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$apt"
  loader=$(find "$root" -name 'ld-linux-*.so.*' | head -n 1)
  libraries=$(find "$root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
  "$patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$root/usr/bin/python$version"
}

runs() { [ -x "$1" ] && "$1" -c "import ctypes, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; }

if [ -n "$release" ] && ! runs "$root/usr/bin/python$version"; then unpack >&2 || true; fi
for found in "$root/usr/bin/python$version" "$(command -v "python$version" || true)" ~/.pyenv/versions/"$version".*/bin/python3; do
  if runs "$found"; then
    echo "$found"
    exit 0
  fi
done
exit 3
