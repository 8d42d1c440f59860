#!/bin/bash
# environment.sh: makes a virtual environment with tests/torch/packages.txt in the user's cache folder, once, and prints its
# folder. Beside it are other versions of transformers (tests/torch/versions.txt), to be put on PYTHONPATH.
# Exits with 3 if the packages cannot be downloaded.
set -u
here=$(dirname "$(realpath "$0")")
key=$(cat "$here/packages.txt" "$here/versions.txt" "$0" | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/test-torch-$key
if [ -e "$folder/complete" ]; then
  echo "$folder"
  exit 0
fi

pip() { "$folder/bin/python" -m pip --disable-pip-version-check --quiet --no-input "$@" >&2; }
rm -rf "$folder" && mkdir -p "$folder" && python3 -m venv "$folder" || exit 2
pip install --no-deps -r "$here/packages.txt" || exit 3
# DeepSpeed has no wheel. Without its own operators it needs no compiler; it is built apart from torch, which cannot be
# imported here without a card.
DS_BUILD_OPS=0 DS_ACCELERATOR=cpu pip install --no-deps deepspeed==0.19.8 || exit 3
while read -r version packages; do
  case $version in '' | '#'*) continue ;; esac
  # shellcheck disable=SC2086 # one word for each package
  pip install --no-deps --target "$folder/transformers-$version" $packages || exit 3
done <"$here/versions.txt"
# Apart, because peft runs other code where it is installed.
pip install --no-deps --target "$folder/bitsandbytes" bitsandbytes==0.50.2 || exit 3
# Apart as well: the other programs are measured without it.
pip install --no-deps --target "$folder/lightning" lightning==2.6.6 lightning-utilities==0.15.3 torchmetrics==1.9.0 || exit 3
# Headers of CUDA, to compare layouts with.
pip install --no-deps --target "$folder/headers/11" nvidia-cuda-runtime-cu11==11.8.89 || exit 3
pip install --no-deps --target "$folder/headers/12" nvidia-cuda-runtime-cu12==12.1.105 || exit 3
pip install --no-deps --target "$folder/headers/13" nvidia-cuda-runtime==13.4.92 || exit 3
touch "$folder/complete"
echo "$folder"
