#!/bin/bash
# wasm.sh: the core compiles for WebAssembly, so it is pure and does not rely on a 64-bit size_t.
cd "$(dirname "$0")/.." || exit 2
includes=(src/core/*/ src/core/families/*/)
for file in src/core/*/*.c src/core/families/*/*.c; do
  clang --target=wasm32-wasi --sysroot=/usr -isystem /usr/include/wasm32-wasi -std=c17 -Wall -Wextra \
    -Wno-missing-field-initializers -Wconversion -Wno-sign-conversion -Werror \
    -Iinclude "${includes[@]/#/-I}" -fsyntax-only "$file" || failed=1
done
[ -z "${failed:-}" ] && echo "1 passed, 0 failed" || echo "0 passed, 1 failed"
exit "${failed:-0}"
