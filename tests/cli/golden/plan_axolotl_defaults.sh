# What Axolotl does without being told. Without adapters, it leaves embeddings, head and norms in float32 if attention is
# sdpa or eager; a simulated run of transformers' Trainer with such a model has the same bytes (3,287,209,984 allocated,
# 3,537,895,424 reserved).
mkdir model
cat > model/config.json << 'EOF'
{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8,
 "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "dtype": "bfloat16"}
EOF
model=$PWD/model
base="base_model: $model
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: true"
show() {
  $PLIMSOLL plan run.yaml --gpu 80GiB "$@" 2>&1 | sed -n '/^note: w/,/^$/p; /^now/p' | grep -v '^$'
  $PLIMSOLL plan run.yaml --gpu 80GiB "$@" --json | grep -m 2 -E 'peak_(allocated|reserved)'
}
(
part unset
printf '%s\n' "$base" > run.yaml
show
)
(
part eager
printf '%s\nattn_implementation: eager\n' "$base" > run.yaml
show
)
(
part flash
printf '%s\nattn_implementation: flash_attention_2\n' "$base" > run.yaml
show
)
(
part adapters
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n' "$base" > run.yaml
show
)
(
part cut-cross-entropy
printf '%s\nplugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n' "$base" > run.yaml
show
)
(
# DeepSpeed casts the whole model.
part zero
printf '%s\ndeepspeed: deepspeed_configs/zero2.json\n' "$base" > run.yaml
show --world 2
)
(
part packed
printf '%s\nsample_packing: true\nattn_implementation: sdpa\n' "$base" > run.yaml
show
sed -i '/attn_/d' run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB | sed -n '/^assumes/,/^note/p'
)
(
# Axolotl knows which kernels from the hub separate packed samples; for others it keeps the mask.
part packed-by-kernels
for kernels in flash-attn3 vllm-flash-attn3; do
  printf '%s\nsample_packing: true\nattn_implementation: kernels-community/%s\n' "$base" $kernels > run.yaml
  $PLIMSOLL plan run.yaml --gpu 80GiB | sed -n '/are packed/,/^note/p' | grep -v ^note
done
)
(
# An unknown key without a value does nothing.
part unknown
printf '%s\ndebug:\nbugs: 1\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 80GiB | grep -A 1 'not understood'
)
(
# Its own checkpoint is stored in float8.
part stored
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_parameters:\n  - mlp.experts.down_proj\n' \
  "${base/$model/MiniMaxAI/MiniMax-M2}" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --world 8 | sed -n '/is quantised/,/bf16/p; /neither/,/all of/p'
)
(
# Names that no layer has.
part no-such-layers
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_modules: [o_proj, query, c_fc]\nflash_attn_rms_norm: true\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB | sed -n '/^note: no layer/,/^note: the files/p'
)
(
# Expressions that no parameter's name fits.
part trained-by-old-names
printf '%s\nunfrozen_parameters:\n  - lm_head\n  - layers.7.feed_forward\n  - layers.6.feed_forward\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB | sed -n '/feed_forward/,/predicted/p'
)
(
# What newer versions of Axolotl refuse, and its kernels for adapters, which one key leaves off.
part older-keys
printf '%s\nadapter: lora\nlora_r: 8\nlora_target_linear: true\nnvfp4_merge_aware: true\nmax_packed_sequence_len: 2048\n' "$base" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB | sed -n '/^note/,/^now/p'
)
