# Axolotl's quantisation-aware training: int8 with int4 and mxfp4 are predicted, for a tied head too; other pairs are noted, and those that
# Axolotl or torchao refuses say that the run will not start.
mkdir model
cat > model/config.json << 'END'
{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
 "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "dtype": "bfloat16"}
END
base="base_model: $PWD/model
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
flash_attention: true
bf16: true"
show() {
  $PLIMSOLL plan run.yaml --gpu 80GiB "$@" 2>&1 |
    grep -E '^[^ ]*model, bf16|^ *[a-z0-9, ]*groups|^note: (quant|torchao|Axolotl ref|round|run.yaml:[0-9]*: qat)|^now|^plimsoll est' -A2 | grep -v ^--$ |
    grep -vE '^assumes|^files|^GPU|^planned|^ *of [0-9]|^note: (axolotl|the files|run.yaml)' | sed "s#$PWD/##g"
}
for pair in 'int8 int4' 'mxfp4 mxfp4' 'nvfp4 nvfp4' 'null int4' 'null null'; do
  echo "== $pair"
  set -- $pair
  printf '%s\nqat:\n  activation_dtype: %s\n  weight_dtype: %s\n' "$base" "$1" "$2" | grep -v 'weight_dtype: null' >run.yaml
  show
done
echo "== mxfp4 with float32 norms"
printf '%s\nqat:\n  activation_dtype: mxfp4\n  weight_dtype: mxfp4\n' "$base" | grep -v flash >run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB 2>&1 >/dev/null | sed "s#$PWD/##g"
echo "== an empty section"
printf '%s\nqat:\n' "$base" >run.yaml
show
echo "== the embedding too, and with adapters"
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\nqat:\n  activation_dtype: int8\n  weight_dtype: int4\n  group_size: 256\n  quantize_embedding: true\n' "$base" >run.yaml
show
