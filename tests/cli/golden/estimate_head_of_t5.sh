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
