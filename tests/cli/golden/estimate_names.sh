# Names of cards and models as people type them: how they are understood, and ambiguous names.
export PLIMSOLL_NVML=none PLIMSOLL_ROOT=$PWD/fixtures/check/machine # the host memory of this machine changes
(
part names
# Common names, and names that are refused because they are ambiguous.
for model in tinyllama llama3.1-8b Meta-Llama-3.1-8B-Instruct qwen2.5:7b "mistral 7b"; do
  for card in "RTX 3090 24GB" "RTX 8000" "A100 80GB" a100-40g "H100 PCIe"; do
    $PLIMSOLL estimate --model "$model" --gpu "$card" --lora-rank 8 --seq 64 | grep -o "on [A-Z].*"
  done
done | sort | uniq -c
for refused in "--model llama3" "--model flan-t5" "--model gpt2 --gpu A100" "--model gpt2 --gpu v100-pcie" \
  "--model jamba-1.5-mini" "--model modernbert-base --head choices" "--model axolotl-quants/DeepSeek-V2.5-bnb-nf4-bf16 --head masked" "--model katanemo/Plano-Orchestrator-4B" "--model Skywork/Skywork-Reward-V2-Qwen3-8B" "--model mistralai/Mistral-7B-Instruct"; do
  $PLIMSOLL estimate $refused 2>&1
done
true
) 2>&1 || echo "exit $?"
(
part cards
# A size in GB and a short name are echoed as they were understood; a full name and GiB are not.
for card in 24GB 80gb "H100" "A100 40GB" 23GB 24GiB "H100 SXM" 4090; do
  echo "-- $card" && $PLIMSOLL estimate -m gpt2 -s 128 -g "$card" | grep -A1 -E "^note|^FITS"
done
$PLIMSOLL check fixtures/small/train.yaml -g 24GB | grep -A1 "24GB"
) 2>&1 || echo "exit $?"
