# A model that Megatron's flags describe: built from them if a family has its layers, otherwise refused with the flag
# that is missing or not supported.
llama='--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --group-query-attention --num-query-groups 4
  --max-position-embeddings 1024 --swiglu --normalization RMSNorm --position-embedding-type rope
  --untie-embeddings-and-output-weights --disable-bias-linear --hidden-dropout 0.0 --attention-dropout 0.0'
gpt='--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --max-position-embeddings 1024'
run='--seq-length 1024 --micro-batch-size 2 --global-batch-size 32 --bf16'
plan() {
  echo "== $1"
  printf '#!/bin/bash\nMODEL_ARGS=(\n%s\n)\ntorchrun --nproc_per_node 4 pretrain_gpt.py ${MODEL_ARGS[@]} %s %s\n' \
    "$2" "$run" "$3" > run.sh
  $PLIMSOLL plan run.sh --gpu 24GiB --try alloc_conf=default 2>&1 | grep -E -A1 '^(error|llama|gpt2|qwen|note: the model|note: Mega|now:)' |
    grep -v -E '^(--|times|from|planned|  -->)'
}
json() { $PLIMSOLL plan run.sh --gpu 24GiB --json | sed -n 's/^  "model": "\(.*\)",$/\1/p'; }
plan "Llama's layers, the vocabulary padded" "$llama" "--vocab-size 32000 --tokenizer-type Llama2Tokenizer"
json
plan "NullTokenizer has one token more" "$llama" "--vocab-size 32000 --tokenizer-type NullTokenizer"
json
plan "Qwen's biases, its width typed" "$llama --add-qkv-bias --ffn-hidden-size 4096" "--vocab-size 32000"
json
plan "GPT-2's, with Megatron's dropouts" "$gpt" "--vocab-size 50257 --make-vocab-size-divisible-by 64"
json
plan "the optimizer is shared" "$llama" "--vocab-size 32000 --use-distributed-optimizer"
echo "== the same by hand"
$PLIMSOLL estimate --model "model_type=gpt2 n_layer=2 n_embd=256 n_head=4" --gpu 24GiB --batch 1 --seq 64 | head -1
$PLIMSOLL estimate --model "model_type=gptx n_layer=2" --gpu 24GiB 2>&1 | head -1
plan "the tokenizer's vocabulary is not read" "$llama" "--tokenizer-type HuggingFaceTokenizer"
plan "another flag is missing" "--num-layers 8 --swiglu" "--vocab-size 32000"
plan "experts" "$llama --num-experts 8" "--vocab-size 32000"
plan "latent attention" "$llama --multi-latent-attention" "--vocab-size 32000"
plan "rope with LayerNorm" "$gpt --position-embedding-type rope" "--vocab-size 32000"
plan "a dropout that Llama has not" "${llama/--hidden-dropout 0.0/}" "--vocab-size 32000"
plan "no number" "${llama/--num-layers 8/--num-layers \$LAYERS}" "--vocab-size 32000"
echo "== a name that is typed wins"
$PLIMSOLL plan run.sh -m gpt2 --gpu 24GiB | head -1
echo "== torchtune's builder of any size"
cat > tune.yaml <<'END'
model: {_component_: torchtune.models.llama2.llama2, vocab_size: 32000, num_layers: 4, num_heads: 8, num_kv_heads: 4,
  embed_dim: 512, max_seq_len: 512}
tokenizer: {_component_: torchtune.models.llama2.llama2_tokenizer, path: t.model, max_seq_len: 512}
checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer, checkpoint_dir: ./models/mine/}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
batch_size: 2
dtype: bf16
END
$PLIMSOLL plan tune.yaml --gpu 24GiB | grep -E -A2 '^(llama|note: the model)'
sed -i 's/ num_layers: 4,//' tune.yaml
$PLIMSOLL plan tune.yaml --gpu 24GiB 2>&1
true
echo "== two commands, two models"
size="--num-layers 2 --hidden-size 256 --num-attention-heads 4 --max-position-embeddings 512 --seq-length 512 --vocab-size 1000"
llama="--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --hidden-dropout 0.0"
batch="--micro-batch-size 4 --global-batch-size 16 --bf16"
printf 'torchrun --nproc_per_node 1 pretrain_gpt.py %s\ntorchrun --nproc_per_node 1 pretrain_gpt.py %s\n' \
  "$size $batch $llama" "$size $batch" >two.sh
$PLIMSOLL plan two.sh --gpu 24GiB 2>&1
