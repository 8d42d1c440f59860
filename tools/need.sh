#!/bin/bash
# need.sh PACKAGE...: makes sure that Debian packages are installed; says nothing if they are.
# "a|b" is satisfied by either; b is what gets installed.
# Without the right to install it prints the command to type and exits with 2.
set -u

missing=()

has_package() {
  local name
  for name in ${1//|/ }; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] && return
  done
  return 1
}

# The command or header that stands for a package where there is no dpkg.
stands_for() {
  case $1 in
  ninja-build) command -v ninja ;;
  libc6-dev | libclang-rt-*) true ;;
  lld) command -v wasm-ld ;;
  llvm) command -v llvm-ar ;;
  dpkg-dev) command -v dpkg-source ;;
  nodejs) command -v node ;;
  wasi-libc) [ -e /usr/include/wasm32-wasi/stdlib.h ] ;;
  diffutils) command -v diff ;;
  binutils) command -v strip ;;
  liblzma-dev) pkg-config --exists liblzma ;;
  zlib1g-dev) pkg-config --exists zlib ;;
  libjansson-dev) pkg-config --exists jansson ;;
  libyaml-dev) pkg-config --exists yaml-0.1 ;;
  libsqlite3-dev) pkg-config --exists sqlite3 ;;
  libncurses-dev) pkg-config --exists ncursesw ;;
  python3-yaml) python3 -c 'import yaml' ;;
  *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

collect_missing() {
  local check=$1 package
  shift
  for package; do "$check" "$package" || missing+=("${package##*|}"); done
}

install_as() {
  echo "installing ${missing[*]}" >&2
  "$@" apt-get -qq update >&2 # if this fails, the lists that are there may still do
  "$@" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
    install --no-install-recommends "${missing[@]}" >/dev/null
}

give_up() {
  echo "error: missing: ${missing[*]}" >&2
  echo "help: $*" >&2
  exit 2
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  collect_missing stands_for "$@"
  [ ${#missing[@]} -eq 0 ] || give_up "install what your system calls these Debian packages"
  exit 0
fi

collect_missing has_package "$@"
[ ${#missing[@]} -eq 0 ] && exit 0

by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  install_as || give_up "$by_hand"
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  install_as sudo || give_up "sudo sh -c '$by_hand'"
else
  give_up "as root: $by_hand"
fi
