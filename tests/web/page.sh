#!/bin/bash
# page.sh PROGRAM PAGE [IMAGES]: the page in Chromium, compared with the program. playwright-core, which drives it, is
# installed into the user's cache folder. Writes pictures of the page into the folder IMAGES, if there is one. SCRIPT=FILE runs
# another script with the same arguments.
set -u
program=$(realpath "$1") page=$(realpath -m "$2") images=${3:+$(realpath -m "$3")}
cd "$(dirname "$0")" || exit 2

skip() {
  echo "skipped: the page in Chromium: $1"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}

[ -e "$page" ] || skip "$page is not built (make web)"
find_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
command -v npm >/dev/null || ../../tools/need.sh npm >/dev/null 2>&1 || skip "there is no npm"
find_browser >/dev/null || ../../tools/need.sh chromium >/dev/null 2>&1 || skip "there is no chromium"
browser=$(find_browser)

key=$(cat package-lock.json | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/test-web-$key
if [ ! -e "$folder/ready" ]; then
  mkdir -p "$folder" && cp package.json package-lock.json "$folder" || exit 2
  (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts >log 2>&1) || skip "npm cannot install playwright-core (see $folder/log)"
  touch "$folder/ready"
fi
PLAYWRIGHT="$folder/" exec node "${SCRIPT:-page.mjs}" "$browser" "$program" "$page" $images
