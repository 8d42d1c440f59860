#!/bin/bash
# wasm_libraries.sh FOLDER: puts jansson, libyaml, zlib and liblzma, for which Debian has no WebAssembly package, into
# FOLDER/include and FOLDER/lib: built from Debian's source packages (tools/fetch.sh). What is there already is not built
# again.
set -eu
root=$(realpath "$(dirname "$0")/..")
toolchain=$root/cmake/wasm.cmake
mkdir -p "$1/include" "$1/lib"
cd "$1"
flags=$(sed -n 's/^set(CMAKE_C_FLAGS_INIT "\(.*\)")$/\1/p' "$toolchain")

# library FILE PACKAGE BUILD HEADERS [OPTION...]: FILE is what the function BUILD makes with these options.
library() {
  local file=$1 package=$2 build=$3 headers=$4
  shift 4
  [ -e "lib/$file" ] && return
  echo "building $package for WebAssembly"
  rm -rf "$package"
  "$root/tools/fetch.sh" . "$package"
  (
    cd "$package" && "$build" "$@" && cp -r $headers ../include && find . -name "$file" -exec cp {} ../lib/ \;
  ) >"$package.log" 2>&1 && return
  cat "$package.log" >&2
  exit 1
}

with_cmake() { # TARGET OPTION...
  cmake -S . -B build -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=MinSizeRel \
    -DBUILD_SHARED_LIBS=OFF "${@:2}" &&
    cmake --build build --target "$1"
}

with_configure() { # FOLDER OPTION...
  env CC="clang --target=wasm32-wasi --sysroot=/usr $flags" CFLAGS=-Os AR=llvm-ar RANLIB=llvm-ranlib CHOST=wasm32-wasi \
    ./configure "${@:2}" && make -C "$1"
}

library libjansson.a jansson with_cmake "build/include/*" jansson -DJANSSON_BUILD_DOCS=OFF
library libyaml.a libyaml with_cmake include/yaml.h yaml -DBUILD_TESTING=OFF
library libz.a zlib with_configure "zlib.h zconf.h" . --static
# liblzma's headers declare functions for signals, which only threads would use.
library liblzma.a xz-utils with_configure "src/liblzma/api/lzma src/liblzma/api/lzma.h" src/liblzma \
  --host=wasm32-wasi --disable-shared --disable-threads --disable-encoders \
  CPPFLAGS="-D_WASI_EMULATED_SIGNAL -include sys/select.h"
