# Tensors are named after the modules that create them, also in families with other module names than Llama's.
for model in gpt2 pythia-160m t5-small bert-base all-mpnet-base; do
  made_by=$($PLIMSOLL estimate -m $model -b 4 -s 384 -g H200 --dtype bf16 --attention eager --explain |
    sed -n '/^largest/,$ s/ of the layers$//; s/^.*[0-9)]  .*  \([a-z_0-9.]\+\)$/\1/p' | sort -u)
  echo $model: $made_by
done
