# Each mistake is named, with what to type instead.
for mistake in "" "--model qwen2.5-7" "--model qwen2.5-7b --gpu 409" "--model gpt2 --seq 5000" \
  "--model gpt2 --optimizer adamm" "--model gpt2 --lora-rank 8 --lora-targets c_atn" \
  "--model gpt2 --batch 0" "--model gpt2 --world 4" "--model gpt2 --alloc-conf max_split_size_mb:8" \
  "--model gpt2 --gpu RTX4091" "--model falcon-h1-0.5b --lora-rank 8" \
  "--model mamba-codestral-7b --lora-rank 8 --lora-targets out_proj"; do
  $PLIMSOLL estimate $mistake
  echo "exit $?" >&2
done
