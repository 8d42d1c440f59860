# A part of the parameters is trained: freeze tuning and LLaMA-Pro of LLaMA-Factory, Axolotl's unfrozen_parameters, --train.
cat >freeze.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-0.5B
stage: sft
do_train: true
finetuning_type: freeze
freeze_trainable_layers: 4
freeze_trainable_modules: mlp,self_attn
freeze_extra_modules: norm
cutoff_len: 1024
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
END
$PLIMSOLL plan freeze.yaml --gpu 24GiB | grep -E "^Qwen|^note|^now|^plimsoll estimate" -A1
echo "== the first layers, of which all modules are trained"
sed -i 's/layers: 4/layers: -3/; /modules/d' freeze.yaml
$PLIMSOLL plan freeze.yaml --gpu 24GiB | grep -E "^Qwen|^note|^now|^plimsoll estimate" -A1
echo "== every sixth layer"
sed 's/layers: -3/layers: 4\nuse_llama_pro: true/' freeze.yaml >pro.yaml
$PLIMSOLL plan pro.yaml --gpu 24GiB | grep -E "^Qwen|^note|^now|^plimsoll estimate" -A1
echo "== adapters in every sixth layer"
sed -i 's/finetuning_type: freeze/finetuning_type: lora/' pro.yaml
$PLIMSOLL plan pro.yaml --gpu 24GiB | grep -E "^Qwen|^note|^now|^plimsoll estimate" -A1
echo "== BAdam, and Muon"
sed '/freeze/d; s/^stage/finetuning_type: full\nuse_badam: true\nstage/' freeze.yaml >badam.yaml
$PLIMSOLL plan badam.yaml --gpu 24GiB | grep -E "^Qwen|^note: BAdam|^now|^plimsoll estimate" -A3
sed -i 's/use_badam/use_muon/' badam.yaml
$PLIMSOLL plan badam.yaml --gpu 24GiB | grep -E "^Qwen|^note|^now|^unverified|^plimsoll estimate" -A1
echo "== unfrozen_parameters"
cat >unfrozen.yml <<'END'
base_model: Qwen/Qwen2.5-0.5B
unfrozen_parameters:
  - ^model.embed_tokens.weight$[:32000]
  - model.layers.2[0-3]+.mlp
sequence_len: 1024
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
bf16: true
END
$PLIMSOLL plan unfrozen.yml --gpu 24GiB | grep -E "^Qwen|^note|^now|^plimsoll estimate" -A1
echo "== beside adapters"
printf 'adapter: lora\nlora_r: 8\nlora_target_linear: true\n' >>unfrozen.yml
$PLIMSOLL plan unfrozen.yml --gpu 24GiB | grep -E "^note: unfrozen" -A5
echo "== a name that no parameter has"
$PLIMSOLL estimate --model qwen2.5-0.5b --train 'layers\.99\.'
echo "== names that are not known, and a part of nothing"
$PLIMSOLL estimate --model t5-small --train 'encoder' --gpu 24GiB | grep -A2 "names of the"
$PLIMSOLL estimate --model qwen2.5-0.5b --train-by inputs
