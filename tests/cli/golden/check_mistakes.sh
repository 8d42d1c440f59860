# Mistyped arguments are errors: exit 2.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING CUDA_VISIBLE_DEVICES
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=truth/../fixtures/check/machine PLIMSOLL_NVML=nowhere
echo 'a: [1' >broken.yaml
echo hello >notes.txt
for mistake in "missing.yaml" "broken.yaml" "notes.txt" "--gpu RTX4091" "--model qwen2.5-7" "--set micro_batch"; do
  $PLIMSOLL check $mistake
  echo "exit $?" >&2
done
# Paths that are not readable files: the message says what they are.
$PLIMSOLL check .
$PLIMSOLL plan fixtures --gpu 24GiB
echo '{"cells": 3}' >train.ipynb && $PLIMSOLL check train.ipynb
$PLIMSOLL check nowhere.yaml
# --set finds a file by the end of its path; an exact path comes first, and an ambiguous one is an error.
mkdir -p a b && echo 'batch: 2' >a/c.yaml && echo 'batch: 3' >b/c.yaml
$PLIMSOLL check a/c.yaml b/c.yaml --set micro_batch=c.yaml:batch
echo 'batch: 1' >c.yaml
$PLIMSOLL check a/c.yaml c.yaml --set micro_batch=c.yaml:batch --json | grep micro_batch
$PLIMSOLL check a/c.yaml b/c.yaml --set micro_batch="$PWD/b/c.yaml:batch" --json | grep micro_batch
printf 'files:\n  c.yaml: Lightning\n' >plimsoll.yaml && $PLIMSOLL check a/c.yaml b/c.yaml plimsoll.yaml
