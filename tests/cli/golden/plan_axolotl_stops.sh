# Axolotl: losses and adapters with which a run stops, in the file and in what a plan offers.
axolotl() { printf 'base_model: %s\nsequence_len: 2048\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\nval_set_size: 0\nbf16: true\nadapter: lora\nlora_r: 8\nlora_target_linear: true\noptimizer: adamw_torch\nattn_implementation: sdpa\n' "$1"; }
cut="plugins:
  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"
liger="plugins:
  - axolotl.integrations.liger.LigerPlugin
liger_fused_linear_cross_entropy: true"
stops() { $PLIMSOLL check run.yaml --gpu 24GiB | grep -A5 'WOULD FAIL.*\(loftq\|Cross\|Liger\)' | sed '/^note/,$d'; $PLIMSOLL plan run.yaml --gpu 24GiB | sed -n '/^to do by hand/,/^$/p' | grep -A3 -E '^[0-9].*(loftq|Cross|Liger)'; }
(
part no-class-to-patch
model=HuggingFaceTB/SmolVLM2-2.2B-Instruct
{ axolotl $model; echo "$cut"; } > run.yaml
stops
echo "== nor does a plan turn it on"
axolotl $model > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB | grep -c Cut
)
(
part another-place-for-the-model
{ axolotl tiiuae/falcon-7b; echo "$cut"; } > run.yaml
stops
{ axolotl tiiuae/falcon-7b; echo "$liger"; } > run.yaml
stops
)
(
part adapters-from-plain-weights
{ axolotl Qwen/Qwen2.5-7B; printf 'peft:\n  loftq_config:\n    loftq_bits: 4\n'; } > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --allow quantisation | grep -E 'quantisation|^planned'
echo "== with 4-bit weights"
sed -i 's/^adapter: lora/adapter: qlora\nload_in_4bit: true/' run.yaml
stops
echo "== with 8-bit weights"
sed -i 's/^adapter: qlora/adapter: lora/; s/load_in_4bit/load_in_8bit/' run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB | grep -A2 LoftQ
)
