# ORPO, CPO, SimPO, KTO and reward models as TRL trains them, and what cannot be predicted.
cat > config.json <<'JSON'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32016, "hidden_size": 1024, "intermediate_size": 2816,
 "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "dtype": "bfloat16"}
JSON
estimate="estimate --model config.json --load init --batch 2 --seq 256 --amp bf16 --gpu h200"
for method in orpo cpo simpo kto reward; do
  $PLIMSOLL $estimate --method $method | sed "/^FITS/q"
  $PLIMSOLL $estimate --method $method --json | grep '"peak_allocated_bytes"'
done
$PLIMSOLL $estimate --method orpo --loss full --json | grep '"peak_allocated_bytes"'
$PLIMSOLL $estimate --method kto --loss full; echo "exit $?"
$PLIMSOLL $estimate --method orpo --reference own; echo "exit $?"
$PLIMSOLL $estimate --method reward --answer-seq 8; echo "exit $?"
$PLIMSOLL $estimate --method orpo --strategy ddp --world 2 | tail -8
$PLIMSOLL $estimate --method orpo --strategy zero3 --world 2; echo "exit $?"
