# What a newcomer types first, and an answer that leads on: nothing that does not exist is named in it.
{
  mkdir folder && cp fixtures/small/train.yaml .
  for line in "estimate qwen2.5-7b" "estimate train.yaml" "estimate -m folder/config.json" "estimate -m gpt2 --seq 0" \
    "estimate -m t5-small --target-seq 0" "estimate -m gpt2 --batch -2" "estimate -m gpt2 --seq 1e6" \
    "estimate -m gpt2 --batch 8.0" "estimate -m gpt2 --optimizer soap" "estimate -m gpt2 --optimizer adam" \
    "plan" "plan folder --gpu 24GiB" "check folder" "apply folder" "replay folder"; do
    echo "== $line"
    $PLIMSOLL $line
  done
} 2>&1
