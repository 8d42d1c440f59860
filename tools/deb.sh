#!/bin/bash
# deb.sh BUILD_DIR: packs what `make install` would install into BUILD_DIR/plimsoll_VERSION_ARCH.deb.
set -e
build=$(realpath "$1") tools=$(dirname "$(realpath "$0")")
stage=$build/deb/root
version=$(sed -n 's/^#define PLIM_VERSION "\(.*\)"/\1/p' "$tools/../include/plimsoll.h")
architecture=$(dpkg --print-architecture)

rm -rf "$build/deb"
umask 022
"$tools/install.sh" "$build" "$stage/usr"
rm "$stage/usr/lib/plimsoll/installed" # dpkg knows
gzip -9n "$stage"/usr/share/man/man1/*.1
mkdir -p "$stage/usr/share/zsh/vendor-completions" # where Debian's zsh looks
mv "$stage/usr/share/zsh/site-functions/_plimsoll" "$stage/usr/share/zsh/vendor-completions/"
rmdir "$stage/usr/share/zsh/site-functions"
gzip -9nc "$tools/../CHANGELOG.md" >"$stage/usr/share/doc/plimsoll/changelog.gz"
strip --strip-unneeded "$stage/usr/bin/plimsoll" "$stage"/usr/lib/plimsoll/*.so

log=$build/deb/log
export DEB_VERSION=$version DEB_ARCHITECTURE=$architecture DEB_STAGE=$stage DEB_OUTPUT=$build/deb
if ! cpack --config "$tools/deb.cmake" >"$log" 2>&1; then
  cat "$log" >&2
  exit 2
fi
mv "$build/deb/plimsoll_${version}_$architecture.deb" "$build/"
rm -rf "$build/deb"
echo "$1/plimsoll_${version}_$architecture.deb"
