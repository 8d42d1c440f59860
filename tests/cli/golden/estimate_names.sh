# What people type, and what is refused because it could be several.
for model in tinyllama llama3.1-8b Meta-Llama-3.1-8B-Instruct qwen2.5:7b "mistral 7b"; do
  for card in "RTX 3090 24GB" "RTX 8000" "A100 80GB" a100-40g "H100 PCIe"; do
    $PLIMSOLL estimate --model "$model" --gpu "$card" --lora-rank 8 --seq 64 | grep -o "on [A-Z].*"
  done
done | sort | uniq -c
for refused in "--model llama3" "--model flan-t5" "--model gpt2 --gpu A100" "--model gpt2 --gpu v100-pcie" \
  "--model deepseek-r1" "--model mistralai/Mistral-7B-Instruct"; do
  $PLIMSOLL estimate $refused 2>&1
done
true
