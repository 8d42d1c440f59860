# DPO as TRL 1.16 trains it. The first command is the run "dpo-lora-b2" of an H200: 2,094,534,656 bytes allocated and
# 2,162,163,712 reserved.
cat > config.json <<'JSON'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
 "num_hidden_layers": 8, "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": true, "dtype": "bfloat16"}
JSON
dpo="estimate --model config.json --load init --method dpo --batch 2 --seq 500 --answer-seq 276 --checkpoint --amp bf16 --gpu h200"
$PLIMSOLL $dpo --lora-rank 16 --json | grep -E '"peak_(allocated|reserved)_bytes"'
$PLIMSOLL $dpo
$PLIMSOLL $dpo --reference adapter; echo "exit $?"
$PLIMSOLL $dpo --answer-seq 500; echo "exit $?"
