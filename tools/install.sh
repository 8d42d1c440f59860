#!/bin/bash
# install.sh BUILD_DIR PREFIX: copies what `make build` left in BUILD_DIR to where systems look.
set -e
build=$1 prefix=$2
install -D "$build/plimsoll" "$prefix/bin/plimsoll"
for file in "$build"/release/card/lib*.so "$build"/release/card/python/*.py; do
  install -D -m 644 "$file" "$prefix/lib/plimsoll/${file#"$build"/release/card/}"
done
for page in "$build"/man/*.1; do
  install -D -m 644 "$page" "$prefix/share/man/man1/${page##*/}"
done
put() { install -D -m 644 "$build/completions/$1" "$prefix/share/$2"; }
install -D -m 644 include/plimsoll.h "$prefix/include/plimsoll.h"
install -d "$prefix/lib/pkgconfig"
cp -a "$build"/release/libplimsoll.so* "$prefix/lib/"
version=$(sed -n 's/^#define PLIM_VERSION "\(.*\)"/\1/p' include/plimsoll.h)
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" tools/plimsoll.pc >"$prefix/lib/pkgconfig/plimsoll.pc"
put plimsoll.bash bash-completion/completions/plimsoll
put _plimsoll zsh/site-functions/_plimsoll
put plimsoll.fish fish/vendor_completions.d/plimsoll.fish
