# Packages whose kernels run in place of PyTorch code: typed, asked for in the project, or brought along by Axolotl.
estimate() { "$PLIMSOLL" estimate -m qwen3.5-4b -s 1024 -c --dtype bf16 --gpu 24GiB "$@" | sed -n '/^assumes/,/^$/p; /total/p; /^time/p'; }

estimate
estimate --packages fla,causal-conv1d
"$PLIMSOLL" estimate -m qwen3.5-4b --gpu 24GiB --packages flash
echo "exit $?"
"$PLIMSOLL" estimate -m qwen2.5-7b --gpu 24GiB --packages fla
echo "exit $?"

part requirements
printf 'transformers==5.17\nflash-linear-attention>=0.4\n' > requirements.txt
cat > train.yaml <<'END'
model_name_or_path: Qwen/Qwen3.5-4B
stage: sft
do_train: true
finetuning_type: lora
dataset: mine
template: qwen3
cutoff_len: 2048
per_device_train_batch_size: 1
output_dir: out
bf16: true
END
"$PLIMSOLL" plan train.yaml --gpu 24GiB | sed -n '/^assumes/,/^$/p'

part axolotl
cat > axolotl.yaml <<'END'
base_model: Qwen/Qwen3.5-4B
datasets:
  - path: mine
    type: alpaca
sequence_len: 2048
sample_packing: true
micro_batch_size: 1
gradient_accumulation_steps: 2
adapter: lora
lora_r: 16
bf16: true
END
"$PLIMSOLL" plan axolotl.yaml --gpu 24GiB | sed -n '/^assumes/,/^$/p; /^plimsoll estimate/p'

part refused
printf 'causal-conv1d\n' > requirements.txt
printf 'base_model: LiquidAI/LFM2-350M\nsequence_len: 512\nmicro_batch_size: 1\n' > axolotl.yaml
"$PLIMSOLL" check axolotl.yaml --gpu 24GiB | grep -A3 ImportError

part fetched
printf 'base_model: tiiuae/Falcon-H1-1.5B-Base\nsequence_len: 512\nmicro_batch_size: 1\n' > axolotl.yaml
"$PLIMSOLL" plan axolotl.yaml --gpu 24GiB | sed -n '/^note: assuming that/,/torch/p; /^now/p'
"$PLIMSOLL" plan axolotl.yaml --gpu 24GiB --packages none | sed -n '/mamba-ssm/,/kernels/p; /^now/p'
echo "== quantised weights beside Mamba's fused kernels"
printf '{"model_type": "bamba", "hidden_size": 1024, "num_hidden_layers": 4, "attn_layer_indices": [2]}\n' > config.json
for model in nvidia/Nemotron-H-8B-Base-8K .; do
  printf 'base_model: %s\nsequence_len: 1024\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: true\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_modules: [q_proj, k_proj]\ndatasets:\n  - path: a\n' $model > quantised.yaml
  "$PLIMSOLL" plan quantised.yaml --gpu 80GiB 2>&1 | grep -E -A2 'note: with quantised|note: the fused|^error'
  "$PLIMSOLL" plan quantised.yaml --gpu 80GiB --packages none 2>&1 | grep -cE 'with quantised|the fused kernels'
  printf 'bnb_config_kwargs:\n  llm_int8_skip_modules: [out_proj]\n' >> quantised.yaml
  "$PLIMSOLL" plan quantised.yaml --gpu 80GiB 2>&1 | grep -cE 'with quantised|the fused kernels' || true
done
