# A verdict says in which directions the prediction may err.
cat >both.yaml <<'YAML'
base_model: Qwen/Qwen2.5-7B
sequence_len: 2048
micro_batch_size: 1
bf16: true
optimizer: adamw_torch_fused
tiled_mlp: true
YAML
echo "== less"
$PLIMSOLL plan both.yaml --gpu 24GiB --fix offload=none --fix optimizer=adamw | sed -n '/^now:/,/^$/p'
$PLIMSOLL check both.yaml --gpu 24GiB | grep -A1 "does not fit"
echo "== more or less"
echo "float32: true" >>both.yaml
$PLIMSOLL plan both.yaml --gpu 24GiB --fix offload=none --fix optimizer=adamw | sed -n '/^now:/,/^$/p'
$PLIMSOLL plan both.yaml --gpu 24GiB,16GiB --fix offload=none --fix optimizer=adamw | grep "nothing fits"
$PLIMSOLL check both.yaml --gpu 24GiB | grep -A1 "does not fit"
true
