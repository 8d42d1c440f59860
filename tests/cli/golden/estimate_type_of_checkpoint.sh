# Properties of a checkpoint that random weights do not have: a type, and a head of its own.
(
part type_of_checkpoint
# The type is the one that transformers 5 loads a checkpoint in; random weights have none.
for model in gpt2 llama-2-7b pythia-70m gemma-2-2b gemma-2-2b-it "llama3.2:1b"; do
  $PLIMSOLL estimate --model "$model" --seq 64 | head -n 1
done
$PLIMSOLL estimate --model gpt2 --seq 64 --load init | head -n 1
$PLIMSOLL estimate --model gpt2 --seq 64 --dtype bf16 | head -n 1
) 2>&1 || echo "exit $?"
(
part head_of_t5
# A checkpoint of Flan-T5 has a head of its own, by name and by config.json; random weights are tied.
cat >config.json <<'CONFIG'
{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 768, "d_ff": 2048, "d_kv": 64,
 "num_heads": 12, "num_layers": 12, "num_decoder_layers": 12, "vocab_size": 32128,
 "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "torch_dtype": "float32"}
CONFIG
for model in flan-t5-base config.json; do
  for load in pretrained init; do
    echo "$model, $load: $($PLIMSOLL estimate --model $model --load $load --seq 64 --json | grep '"params"')"
  done
done
) 2>&1 || echo "exit $?"
