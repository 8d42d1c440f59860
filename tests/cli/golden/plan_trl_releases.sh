# Settings that newer versions of TRL lack say for which version a recipe was written: its losses and types are predicted.
show() { $PLIMSOLL plan "$@" --gpu 24GiB 2>&1 | sed -n '1,3p; /^files/,/^now/p; /chunked_nll/p; /^+use_liger/p'; }
sft="model_name_or_path: Qwen/Qwen2.5-0.5B
use_peft: true
lora_r: 16
load_in_4bit: true
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
gradient_checkpointing: true
bf16: true"
dpo="model_name_or_path: Qwen/Qwen2.5-0.5B
dtype: null
dataset_mixture:
  seed: 0
beta: 0.1
per_device_train_batch_size: 1
gradient_checkpointing: true
max_length: 1024
bf16: true"
(
part sft-open
printf '%s\nmax_seq_length: 2048\n' "$sft" > run.yaml
show run.yaml
)
(
part sft-range
echo 'trl>=0.18' > requirements.txt
printf '%s\nmax_seq_length: 2048\n' "$sft" > run.yaml
show run.yaml
)
(
part sft-newer
echo 'trl>=0.18' > requirements.txt
printf '%s\nmax_length: 2048\n' "$sft" > run.yaml
show run.yaml
)
(
part sft-typed
printf '%s\nmax_seq_length: 2048\n' "$sft" > run.yaml
show run.yaml --versions trl=1.16
)
(
part dpo-range
echo 'trl>=0.19.1' > requirements.txt
printf '%s\nmax_prompt_length: 512\n' "$dpo" > run.yaml
show run.yaml
)
(
part dpo-newer
echo 'trl==1.16.0' > requirements.txt
printf '%s\n' "$dpo" > run.yaml
show run.yaml
)
(
part dpo-older-transformers
printf 'trl==0.24\ntransformers==4.57.0\n' > requirements.txt
printf '%s\n' "$dpo" > run.yaml
show run.yaml
)
(
# Older words of TRL and transformers, and a package that newer releases do not work with.
part older-words
printf '%s\npacking_strategy: ffd\n' "$sft" > ffd.yaml
printf '%s\ntorch_dtype: bfloat16\n' "$sft" > dtype.yaml
printf '%s\noverwrite_output_dir: true\n' "$sft" > overwrite.yaml
for file in ffd dtype overwrite; do show $file.yaml | grep -A1 -E '^assumes|predicted as (TRL|trans)'; done
echo 'huggingface-hub>=0.33.4,<1.0' > requirements.txt
show ffd.yaml | grep -A1 -E '^assumes|^note'
)
(
part dpo-four-bits
# Before 0.29, DPOTrainer widens norms alone: embeddings and head become bf16 again. In SFTTrainer nothing is widened from 0.27 on.
printf '%s\nuse_peft: true\nlora_r: 16\nload_in_4bit: true\n' "$dpo" > run.yaml
for release in 0.28 0.29; do $PLIMSOLL plan run.yaml --gpu 24GiB --versions trl=$release 2>&1 | grep -E '^now|^weights|^activations'; done
echo "== what a plan adds to a file without adapters"
printf 'trl==0.28\n' > requirements.txt
printf '%s\n' "$dpo" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --allow lora_rank --fix lora_rank=16 | sed -n '/^[0-9]\. lora_rank/,/all-linear/p'
echo "== a key that 5.15 removed"
for release in 14 15; do
  printf 'trl==0.28\ntransformers==5.%s\n' $release > requirements.txt
  printf '%s\nwarmup_ratio: 0.1\n' "$dpo" > run.yaml
  echo "5.$release: $($PLIMSOLL check run.yaml --gpu 24GiB | grep -c 'removed in transformers 5.15: warmup_ratio')"
done
)
(
# Names that trl no longer has; not where the script has another way for newer versions.
part imports
cat > train.py <<'P'
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer, setup_chat_format
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
model, tokenizer = setup_chat_format(model, AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B"))
args = SFTConfig(output_dir="out", per_device_train_batch_size=4)
SFTTrainer(model=model, args=args, train_dataset=data).train()
P
$PLIMSOLL plan train.py --gpu 24GiB | sed -n '/^assumes/,/version that has it/p'
sed 's/, setup_chat_format$//; 1i try:\n    from trl import setup_chat_format\nexcept ImportError:\n    pass' train.py > tries.py
$PLIMSOLL plan tries.py --gpu 24GiB | grep -c 'fails since'
)
(
# Scripts that pass a reference model also beside adapters: alignment-handbook's dpo.py, TRL's kto.py before 1.8.
part reference
printf '%s\nuse_peft: true\nlora_r: 16\n' "$dpo" > run.yaml
sed 's/beta: 0.1/desirable_weight: 1.0/; s/batch_size: 1/batch_size: 2/; /dataset_mixture/,/seed/d' run.yaml > kto.yaml
for release in 0.27 0.28; do $PLIMSOLL plan run.yaml --gpu 24GiB --versions trl=$release | grep -A2 -E '^note: .* passes a reference|^plimsoll'; done
printf '%s\nforce_use_ref_model: true\n' "$(cat run.yaml)" > forced.yaml
$PLIMSOLL check forced.yaml --gpu 24GiB | grep -c 'refuses, so the run'
for release in 1.7 1.8; do $PLIMSOLL plan kto.yaml --gpu 24GiB --versions trl=$release 2>&1 | grep -E "^error|^plimsoll"; done
printf '%s\n' "$dpo" > run.yaml
$PLIMSOLL plan run.yaml --gpu 24GiB --versions trl=0.27 --allow lora_rank | grep -A1 'note: lora_rank will not'
$PLIMSOLL plan run.yaml --gpu 24GiB --allow lora_rank --fix lora_rank=16 | grep '^plimsoll'
echo "== its own script"
printf '%s\nuse_peft: true\nlora_r: 16\n' "$dpo" | sed '/dataset_mixture/,/seed/d' > run.yaml
echo 'from trl import DPOTrainer' > train.py
$PLIMSOLL plan run.yaml --gpu 24GiB --versions trl=0.28 | grep '^plimsoll'
rm train.py
echo "== a key that alignment-handbook had before"
printf '%s\n' "${dpo/dataset_mixture:/dataset_mixer:}" > run.yaml
$PLIMSOLL check run.yaml --gpu 24GiB --effective-batch 1 2>/dev/null | grep -c dataset_mixer
echo 'trl>=0.19.1' > requirements.txt
$PLIMSOLL check run.yaml --gpu 24GiB | grep -A5 dataset_mixer
)
(
part dpo-liger-loss
# Liger's own loss for preferences: by a key of its own before 0.28, by use_liger_kernel from 0.25 to 1.14.
loss() { $PLIMSOLL plan run.yaml --gpu 24GiB "$@" 2>&1 | tr -s ' \n' ' ' | grep -oE "in TRL [0-9.]+, use_liger_[a-z]+ turns|keep all logits|padding_free: a batch|TRL has no use_liger_loss" | sort -u; }
printf '%s\nuse_liger_kernel: true\npadding_free: true\nattn_implementation: flash_attention_2\n' "$dpo" > run.yaml
for release in 0.24 0.25 1.14 1.15; do echo "== kernel $release"; loss --versions trl=$release; done
printf '%s\nuse_liger_loss: true\n' "$dpo" > run.yaml
echo "== a key of its own"
loss
echo 'trl==0.20' > requirements.txt
loss
)
