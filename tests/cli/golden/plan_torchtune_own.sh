# What torchtune's own models, layers and recipes do: tables of rotary positions, NF4 of torchao, DoRA, frozen decoders.
recipe() { # FILE BUILDER [LINES below model]
  cat >"$1" <<EOF
# To launch on a single device, run the following command from root:
#   tune run lora_finetune_single_device --config llama3/$1
model:
  _component_: torchtune.models.$2
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
${3:-}
tokenizer:
  max_seq_len: 1024
checkpointer:
  checkpoint_dir: /tmp/Llama-3-8B
dataset:
  _component_: ${4:-torchtune.datasets.alpaca_dataset}
optimizer:
  _component_: torch.optim.AdamW
  fused: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 2
gradient_accumulation_steps: 8
clip_grad_norm: null
enable_activation_checkpointing: True
dtype: bf16
EOF
}
(
part tables
# Functions for adapters make a table for each layer, others one for all; those of Llama 3.1 share one in both.
for builder in qwen3.lora_qwen3_8b_instruct qwen3.lora_qwen3_8b_base qwen3.qwen3_8b_instruct llama3_1.lora_llama3_1_8b \
  llama3.lora_llama3_8b phi4.lora_phi4_14b mistral.lora_mistral_7b gemma.lora_gemma_2b; do
  recipe recipe.yaml $builder
  $PLIMSOLL plan recipe.yaml --gpu 141GiB | sed -nE "s/.* (--rope-tables [^ ]+).*/$builder \1/p"
done
echo "== a length of one's own"
recipe recipe.yaml llama2.lora_llama2 "  vocab_size: 32000
  num_layers: 4
  num_heads: 16
  num_kv_heads: 16
  embed_dim: 1024
  max_seq_len: 2048"
$PLIMSOLL plan recipe.yaml --gpu 24GiB | grep -o "rope-tables [^ ]*"
echo "== typed"
$PLIMSOLL estimate --model qwen3-8b --seq 1024 --gpu 24GiB --checkpoint --lora-rank 8 | grep -m1 "weights"
$PLIMSOLL estimate --model qwen3-8b --seq 1024 --gpu 24GiB --checkpoint --lora-rank 8 --rope-tables 36x40MiB | grep "^weights"
$PLIMSOLL estimate --model qwen3-8b --gpu 24GiB --rope-tables 36xmany
$PLIMSOLL estimate --model qwen3-8b --gpu 24GiB --rope-tables 1MiB,2MiB,3MiB
) 2>&1 || echo "exit $?"
(
part nf4
# quantize_base is what a function called qlora_ sets.
recipe builder.yaml llama3.qlora_llama3_8b
recipe key.yaml llama3.lora_llama3_8b "  quantize_base: True"
recipe plain.yaml llama3.qlora_llama3_8b "  quantize_base: False"
for file in builder key plain; do
  $PLIMSOLL plan $file.yaml --gpu 24GiB | grep -E "^llama3|^now|^weights|allow quantisation|bitsandbytes"
done
echo "== a plan sets the key, and needs no bitsandbytes"
recipe recipe.yaml llama3.lora_llama3_8b
$PLIMSOLL plan recipe.yaml --gpu 10GiB --allow quantisation | grep -E "quantisation|quantize_base|pip|by hand"
echo "== unpacking takes time that larger batches save"
$PLIMSOLL plan builder.yaml --gpu 24GiB | grep -E "^micro_batch|^accumulate"
) 2>&1 || echo "exit $?"
(
part unadapted
# Functions of qwen2 and qwen3 quantise only what has adapters: here all but keys; with adapters on queries, less.
recipe most.yaml qwen3.lora_qwen3_8b_instruct "  quantize_base: True"
sed "s/'v_proj', 'output_proj'//; s/mlp: True/mlp: False/" most.yaml >few.yaml
for file in most few; do $PLIMSOLL plan $file.yaml --gpu 141GiB | grep "^weights"; done
) 2>&1 || echo "exit $?"
(
part llama4
# A frozen tower has neither adapters nor gathered layers; only the layers' attention would be quantised.
recipe scout.yaml llama4.lora_llama4_scout_17b_16e '  apply_lora_to_output: False
  fusion_trainable: "lora"' 
sed -i 's/run lora_.* --config/run --nproc_per_node 8 lora_finetune_distributed --config/' scout.yaml
echo "custom_sharded_layers: ['tok_embeddings']" >>scout.yaml
$PLIMSOLL plan scout.yaml --gpu 80GiB --allow quantisation | grep -E -A2 "^note: scout|^note: *model|^now|^adapters|^--allow"
sed -i "s/'tok_emb/'decoder.tok_emb/; s/to_output: False/to_output: True/" scout.yaml
echo "== names of modules, and an adapted projection"
$PLIMSOLL plan scout.yaml --gpu 80GiB | grep -E -A1 "fusion|custom"
) 2>&1 || echo "exit $?"
(
part adapters
# Those that a plan adds have the model's type and tables of their own, and their recipe does not step in backward.
recipe one.yaml phi3.phi3_mini
sed -i '/lora_[a-z]*:/d; /apply_lora/d; s/run lora_/run full_/; s/mulation_steps: 8/mulation_steps: 1/' one.yaml
echo "optimizer_in_bwd: True" >>one.yaml
$PLIMSOLL plan one.yaml --gpu 11GiB --allow lora_rank --fix lora_rank=16 | sed -n '/^lora_rank/p; /^to do/,$p'
echo "== several GPUs"
sed 's/run full_.* --config/run --nproc_per_node 2 full_finetune_distributed --config/' one.yaml >two.yaml
$PLIMSOLL plan two.yaml --gpu 16GiB --allow lora_rank --fix lora_rank=16 | sed -n '/^lora_rank/p; /^to do/,/tune run/p'
) 2>&1 || echo "exit $?"
(
part keys
# Keys that the recipe does not read have no effect, and a plan does not set them.
recipe kd.yaml llama3_2.lora_llama3_2_1b
cat >>kd.yaml <<'EOF'
teacher_model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
enable_activation_offloading: True
optimizer_in_bwd: True
EOF
sed -i 's/LinearCrossEntropyLoss/CEWithChunkedOutputLoss/; s/run lora_finetune/run knowledge_distillation/' kd.yaml
for fix in micro_batch=2 offload=activations; do
  $PLIMSOLL plan kd.yaml --gpu 80GiB --fix $fix | sed -n '/^note: kd/,/effect/p; /^now/p'
done
echo "== the same in a file of adapters, whose comment names the recipe for all parameters"
recipe lora.yaml llama3_2.lora_llama3_2_1b
sed -i 's/run lora_/run full_/' lora.yaml
echo "optimizer_in_bwd: True" >>lora.yaml
$PLIMSOLL plan lora.yaml --gpu 24GiB | sed -n '/^note: lora/,/effect/p'
) 2>&1 || echo "exit $?"
(
part check
# The comment names a recipe for one GPU; and no text is short enough.
recipe one.yaml llama3.llama3_8b
sed -i '/lora_[a-z]*:/d; /apply_lora/d; /tokenizer:/d; /max_seq_len/d' one.yaml
$PLIMSOLL check one.yaml --gpu 40GiB | grep -E -A1 "^ok +batch|^WOULD|^NOT"
) 2>&1 || echo "exit $?"
(
part dora
recipe dora.yaml llama3.lora_llama3_8b "  use_dora: True"
recipe both.yaml llama3.lora_llama3_8b "  use_dora: True
  quantize_base: True"
for file in dora both; do $PLIMSOLL plan $file.yaml --gpu 24GiB | grep -E "^llama3|^now|DoRA|--dora"; done
) 2>&1 || echo "exit $?"
(
part offload
# Without offloading there may be no checkpoints, either.
recipe recipe.yaml llama3_2.lora_llama3_2_1b
echo "enable_activation_offloading: True" >>recipe.yaml
$PLIMSOLL plan recipe.yaml --gpu 24GiB --fix micro_batch=2 | grep -E "^checkpoint|^offload"
) 2>&1 || echo "exit $?"
(
part decoder
recipe frozen.yaml llama3_2_vision.qlora_llama3_2_vision_11b '  decoder_trainable: "frozen"'
recipe default.yaml llama3_2_vision.lora_llama3_2_vision_11b "" torchtune.datasets.multimodal.the_cauldron_dataset
recipe lora.yaml llama3_2_vision.qlora_llama3_2_vision_11b '  decoder_trainable: "lora"'
for file in frozen default lora; do
  echo "== $file"
  $PLIMSOLL plan $file.yaml --gpu 80GiB | sed -n '/^note: the decoder/,/^note: torchtune sets/p; /^weights/p'
done
echo "== all of its parameters"
recipe full.yaml llama3_2_vision.llama3_2_vision_11b
sed -i '/lora/d' full.yaml
$PLIMSOLL plan full.yaml --gpu 80GiB
) 2>&1 || echo "exit $?"
(
part passes
# Distillation takes the mean of each micro batch, whose samples have several lengths unless they are packed.
recipe kd.yaml llama3_2.lora_llama3_2_1b
cat >>kd.yaml <<'EOF'
teacher_model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
kd_loss:
  _component_: torchtune.modules.loss.ForwardKLWithChunkedOutputLoss
EOF
sed -i 's/LinearCrossEntropyLoss/CEWithChunkedOutputLoss/' kd.yaml
$PLIMSOLL plan kd.yaml --gpu 22GiB | sed -n '/^NOTHING/,/^samples/p'
sed 's/alpaca_dataset/&\n  packed: True/' kd.yaml >packed.yaml
$PLIMSOLL plan packed.yaml --gpu 22GiB | grep -E "^question|^micro_batch"
$PLIMSOLL plan kd.yaml --gpu 22GiB --allow micro_batch | sed -n '/^note: torchtune.s distillation/,/^note: torchtune sets/p; /^planned/,/learns$/p'
$PLIMSOLL plan kd.yaml --gpu 80GiB --fix micro_batch=2 | grep -c "distillation divides"
) 2>&1 || echo "exit $?"
(
part launch
# Files for several GPUs, and hints with the recipe that reads the file.
recipe tp.yaml llama3_3.llama3_3_70b
sed -i '/lora/d; s/^# To launch on.*/# To launch on 2 nodes w\/ 8 devices on a SLURM cluster:/' tp.yaml
echo "tensor_parallel_dim: 8" >>tp.yaml
$PLIMSOLL plan tp.yaml --gpu 80GiB
echo "== without tensor parallelism"
sed -i 's/dim: 8/dim: 1/' tp.yaml
$PLIMSOLL plan tp.yaml --gpu 80GiB | sed -n '2p; /GPUs on 2/,/world/p; /nnodes/p'
echo "== no comment"
sed -i '/^#/d' tp.yaml
$PLIMSOLL plan tp.yaml --gpu 80GiB | sed -n '2p; /^note: tensor/,/world/p'
echo "== recipes that do not train"
for run in "generate --config generation" "--nproc_per_node 8 dev/generate_v2_distributed --config llama3/gen" \
  "--nnodes 1 --nproc_per_node=2 eleuther_eval --config e"; do
  printf '# tune run %s\nmodel:\n  _component_: torchtune.models.llama3.llama3_8b\ncheckpointer:\n  checkpoint_dir: /tmp/x\nmax_new_tokens: 300\n' "$run" >gen.yaml
  $PLIMSOLL plan gen.yaml --gpu 24GiB
done
echo "== answers that other workers generate"
cat >async.yaml <<'EOF'
# tune run dev/async_grpo_full_finetune_distributed --config dev/qwen3B_async_grpo
model:
  _component_: torchtune.models.qwen2_5.qwen2_5_3b
tokenizer:
  _component_: torchtune.models.qwen2_5.qwen2_5_tokenizer
orchestration:
  num_inference_workers: 4
training:
  batch_size: 16
  optimizer:
    _component_: torch.optim.AdamW
EOF
$PLIMSOLL plan async.yaml --gpu 24GiB
) 2>&1 || echo "exit $?"
# torchao divides 4-bit weights only if their numbers of scales are multiples of the GPUs.
(
part divided
recipe run.yaml qwen2_5.lora_qwen2_5_0_5b '  quantize_base: True'
sed -i 's/single_device/distributed/; s/Llama-3-8B/Qwen2.5-0.5B/' run.yaml
for gpus in 2 7; do
  $PLIMSOLL plan run.yaml --gpu 24GiB --world $gpus 2>&1 | grep -E '^now|^error'
  $PLIMSOLL check run.yaml --gpu 24GiB --world $gpus 2>&1 | grep -A3 'torchao cannot'
done
true
)
