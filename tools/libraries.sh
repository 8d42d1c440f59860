#!/bin/bash
# libraries.sh FOLDER ARCH ZIG: makes FOLDER/bin/cc and ar, which compile for ARCH (x86_64, aarch64) and glibc 2.28, and with
# them, from Debian's sources, the static libraries that the program needs, in FOLDER/lib, FOLDER/include and FOLDER/licenses.
# FOLDER ends in ARCH. Sources are kept beside it.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
arch=$2 zig=$(realpath "$3")
folder=$(mkdir -p "$1/bin" && realpath "$1")
sources=$folder/../sources
key=$(sha256sum <"$0"; "$zig" version)
[ "$(cat "$folder/complete" 2>/dev/null)" = "$key" ] && exit 0

tool() { printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$folder/bin/$1" && chmod +x "$folder/bin/$1"; }
tool cc "$zig cc -target $arch-linux-gnu.2.28"
tool ar "$zig ar"
tool ranlib "$zig ranlib"
packages=(jansson libyaml xz-utils zlib sqlite3 ncurses)
"$here/fetch.sh" "$sources" "${packages[@]}"

export CC=$folder/bin/cc AR=$folder/bin/ar RANLIB=$folder/bin/ranlib CHOST=$arch-linux-gnu
export CFLAGS="-O2 -fPIC -fvisibility=hidden -ffp-contract=off"
log=$folder/log
: >"$log"

# build PACKAGE COMMAND...: runs the command in a copy of the package's source.
build() {
  local package=$1
  shift
  cp -a "$sources/$package" "$folder/work/$package"
  if ! (cd "$folder/work/$package" && "$@") >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    printf 'error: %s could not be built\nhelp: the whole log is %s\n' "$package" "$log" >&2
    exit 2
  fi
}
# with_cmake OPTION...; with_configure TARGET... -- OPTION...
with_cmake() {
  cmake -S . -B work -G "Unix Makefiles" -DCMAKE_TOOLCHAIN_FILE="$here/../cmake/zig.cmake" -DPLIMSOLL_TOOLS="$folder" \
    -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF "$@" &&
    make -C work -j"$(nproc)" install
}
with_configure() {
  local targets=()
  while [ "$1" != -- ]; do targets+=("$1") && shift; done
  ./configure --prefix="$folder" "${@:2}" && make -j"$(nproc)" "${targets[@]}"
}

rm -rf "$folder/work" && mkdir "$folder/work"
build jansson with_cmake -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON
build libyaml with_cmake -DBUILD_TESTING=OFF
build xz-utils with_cmake -DBUILD_TESTING=OFF
build zlib with_configure install -- --static
# SQLite's build, which needs a compiler of this machine, joins its sources into one file. The program loads no extensions.
with_amalgamation() {
  CC=gcc CFLAGS='' with_configure sqlite3.c -- --disable-tcl --disable-readline &&
    "$CC" $CFLAGS -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c &&
    "$AR" rcs "$folder/lib/libsqlite3.a" sqlite3.o && cp sqlite3.h "$folder/include"
}
build sqlite3 with_amalgamation
# The terminal's description is looked for where distributions have it; those of common terminals are in the library.
build ncurses with_configure install -- --host="$CHOST" --with-build-cc=gcc --enable-widec --enable-overwrite \
  --without-{cxx,cxx-binding,ada,manpages,progs,tests,debug,shared,gpm} --disable-{db-install,stripping} \
  --enable-pc-files --with-pkg-config-libdir="$folder/lib/pkgconfig" \
  --with-default-terminfo-dir=/usr/share/terminfo \
  --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo \
  --with-fallbacks=xterm-256color,xterm,screen-256color,screen,tmux-256color,linux,vt100
mkdir -p "$folder/licenses"
for package in "${packages[@]}"; do cp "$sources/$package/debian/copyright" "$folder/licenses/$package.txt"; done
rm -rf "$folder/work"
echo "$key" >"$folder/complete"
