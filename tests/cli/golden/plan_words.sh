# No adapters are none, not 0; a loss alone is no row of logits.
$PLIMSOLL plan -m llama-3.2-1b -g 24GiB -s 1024 --fix lora_rank=16 | grep -E "^(setting|lora_rank)"
$PLIMSOLL plan -m sentence-transformers/all-MiniLM-L6-v2 --loss contrastive -b 16 -s 128 -g 24GiB | sed -n '/^budget/,/^total/p'
$PLIMSOLL estimate -m sentence-transformers/all-MiniLM-L6-v2 --loss contrastive -b 16 -s 128 | grep -c logits || true
# A file that was cut off shows by what it does not say.
printf 'base_model: NousResearch/Meta-Llama-3-8B\nload_in_8bit: false\n' >cut.yaml
HF_HOME=nowhere $PLIMSOLL plan cut.yaml -g 80GiB | grep -A1 "not set in the files"
