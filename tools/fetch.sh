#!/bin/bash
# fetch.sh FOLDER PACKAGE...: unpacks the source of Debian packages into FOLDER/PACKAGE, if it is not there yet. apt downloads
# it from where this machine gets its packages and checks the signatures; the machine's own lists are left alone.
set -euo pipefail
folder=$(mkdir -p "$1" && realpath "$1")
shift

missing=()
for package; do [ -d "$folder/$package" ] || missing+=("$package"); done
[ ${#missing[@]} -eq 0 ] && exit 0

fail() {
  printf 'error: %s\nhelp: %s\n' "$1" "$2" >&2
  exit 2
}
command -v apt-get >/dev/null || fail "apt-get is not there" "build this on Debian or Ubuntu"
# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

apt=$folder/.apt
rm -rf "$apt" && mkdir -p "$apt"/{lists.d,state/lists/partial,cache/archives/partial}
# The lists of the distribution, and not those of others that are installed from: sources in place of packages. A list is a
# file of paragraphs (.sources) or of lines (.list).
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  case $list in
  *.sources)
    awk -v release="$release" 'BEGIN {RS = ""; ORS = "\n\n"}
      match($0, "(^|\n)Suites:[^\n]*[ /]" release "([- \n]|$)") {sub(/Types:[^\n]*/, "Types: deb-src"); print}' "$list"
    ;;
  esac
done >"$apt/lists.d/distribution.sources"
cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
  sed -nE "s/^deb +((\[[^]]*\] +)?[^ ]+ +$release(-[a-z]+)? )/deb-src \1/p" >"$apt/lists.d/distribution.list" || true

options=(-q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/lists.d" -o Dir::State="$apt/state"
  -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" update >"$apt/log" 2>&1 ||
  fail "the list of source packages cannot be downloaded: $(tail -n 1 "$apt/log")" "connect this machine, and try again"
for package in "${missing[@]}"; do
  work=$apt/work-$package
  rm -rf "$work" && mkdir "$work"
  (cd "$work" && apt-get "${options[@]}" source --only-source "$package") >>"$apt/log" 2>&1 ||
    fail "the source of $package cannot be downloaded: $(tail -n 1 "$apt/log")" "connect this machine, and try again"
  mv "$work"/*/ "$folder/$package"
done
rm -rf "$apt"
