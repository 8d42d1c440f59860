# The type is the one that transformers 5 loads a checkpoint in; random weights have none.
for model in gpt2 llama-2-7b pythia-70m gemma-2-2b gemma-2-2b-it "llama3.2:1b"; do
  $PLIMSOLL estimate --model "$model" --seq 64 | head -n 1
done
$PLIMSOLL estimate --model gpt2 --seq 64 --load init | head -n 1
$PLIMSOLL estimate --model gpt2 --seq 64 --dtype bf16 | head -n 1
