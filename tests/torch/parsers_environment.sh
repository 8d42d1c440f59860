#!/bin/bash
# parsers_environment.sh ENVIRONMENT: installs the frameworks whose parsers tests/torch/parsers.py uses, once, each into a
# folder of its own to be put on PYTHONPATH, and prints the folder that holds them. They are apart from
# tests/torch/environment.sh, so that a new version here does not download PyTorch again.
# Exits with 3 if the packages cannot be downloaded.
set -u
key=$(cat "$(dirname "$0")/packages.txt" "$0" | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/test-parsers-$key
if [ -e "$folder/complete" ]; then
  echo "$folder"
  exit 0
fi

# install NAME PACKAGE...: only what the framework's parser imports.
install() {
  "$environment/bin/python" -m pip --disable-pip-version-check --quiet --no-input install --no-deps --target "$folder/$1" "${@:2}" >&2 || exit 3
}
environment=$1
rm -rf "$folder" && mkdir -p "$folder" || exit 2
install axolotl axolotl==0.19.0 addict==2.4.0 mistral-common==1.11.5
install torchtune torchtune==0.6.1 torchao==0.14.1 torchdata==0.11.0 sentencepiece==0.2.3 tiktoken==0.14.0
# These two with transformers 4.57.6, which still has the keys of their files.
install llamafactory llamafactory==0.9.5 trl==0.24.0 datasets==4.0.0 fsspec==2025.3.0
install handbook trl==0.19.1 datasets==4.0.0 fsspec==2025.3.0
touch "$folder/complete"
echo "$folder"
