# Files of different trainings, for another machine: each by itself, as text, as JSON, and as SARIF with the places.
export PYTORCH_CUDA_ALLOC_CONF=nonsense PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so"
cp fixtures/check/ready/train.yaml fits.yaml
sed 's/^micro_batch_size: .*/micro_batch_size: "yes"/; s/^sequence_len/sequence_lenn/' fits.yaml >wrong.yaml
printf 'services: {web: {image: nginx}}\n' >compose.yaml
printf 'a: {b\n' >broken.yaml
printf 'one:\n\tpython train.py --bf16\ntwo:\n\tpython train.py --fp16\n' >Makefile
try() { $PLIMSOLL check --elsewhere "$@"; echo "exit $?"; } 2>&1
files="fits.yaml wrong.yaml compose.yaml broken.yaml Makefile nowhere.yaml"
try --each --gpu 24GiB $files --sarif out.sarif 2>&1
try --each fits.yaml compose.yaml 2>&1 | tail -5
try --each --json --gpu 24GiB $files 2>/dev/null | grep -E '^ *"(named|is_recognised|verdict|message|cards|total_bytes)"|^exit'
sed '/"rules": \[/,/^          \]/d' out.sarif
# What cannot be meant.
try --each 2>&1
try --each fits.yaml --set sequence=fits.yaml:sequence_len 2>&1
try fits.yaml --sarif fits.yaml 2>&1
try fits.yaml --sarif compose.yaml 2>&1
try fits.yaml --sarif - 2>&1
