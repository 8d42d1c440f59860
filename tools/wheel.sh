#!/bin/bash
# wheel.sh ARCH: builds build/wheel/plimsoll_gpu-VERSION-py3-none-manylinux_2_28_ARCH.whl (x86_64 or aarch64) with zig, for every
# Python and every Linux with glibc 2.28 or newer, from Debian's sources of the libraries and packages of PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1 folder=$PWD/build/wheel
environment=$folder/environment

case $arch in
x86_64 | aarch64) ;;
*)
  printf 'error: no wheel is built for %s\nhelp: make wheel ARCH=x86_64, or ARCH=aarch64\n' "$arch" >&2
  exit 2
  ;;
esac

packages=(ziglang==0.17.0 scikit-build-core==1.1.2 wheel==0.48.0)
if [ "$(cat "$environment/complete" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$environment" && python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --disable-pip-version-check --quiet --no-input "${packages[@]}"
  echo "${packages[*]}" >"$environment/complete"
fi
tools/libraries.sh "$folder/$arch" "$arch" "$environment"/lib/python*/site-packages/ziglang/zig

[ -e build/plimsoll.html ] || make web
rm -rf "$folder/raw"
"$environment/bin/python" -m pip wheel --disable-pip-version-check --quiet --no-input --no-deps --no-build-isolation \
  --wheel-dir "$folder/raw" . -C build-dir="$folder/$arch/program" \
  -C cmake.args="-G;Ninja;-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/zig.cmake;-DPLIMSOLL_TOOLS=$folder/$arch"
rm -f "$folder"/plimsoll_gpu-*"_$arch.whl"
(cd "$folder/raw" && "$environment/bin/python" -m wheel tags --platform-tag "manylinux_2_28_$arch" ./*.whl >/dev/null)
mv "$folder/raw"/*"manylinux_2_28_$arch.whl" "$folder/"
rm -rf "$folder/raw"
ls "$folder"/plimsoll_gpu-*"_$arch.whl"
