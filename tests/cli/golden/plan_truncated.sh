# Files that end too early, one of each format: where, and what to do.
work=$(mktemp -d) && cd "$work" || exit 9
printf 'per_device_train_batch_size: 2\noutput_dir: "out\n' > train.yaml
printf '{"train_micro_batch_size_per_gpu": 1,' > ds.json
printf 'batch = [1\n' > train.toml
printf 'batch = (1,\n' > train.py
for file in train.yaml ds.json train.toml train.py; do
    $PLIMSOLL plan "$file" -m tiny-llama --gpu 24GiB
done
rm -rf "$work"
