# Files with CRLF or a byte order mark get the same edits as files with plain line ends, with their own line ends.
here=$PWD
both() { # NAME FIXTURE FILES OPTIONS...
  local name=$1 fixture=$2 files=$3 work
  shift 3 && work=$(mktemp -d) && cp -r "$here/fixtures/$fixture" "$work/plain" && cp -r "$work/plain" "$work/other"
  find "$work/other" -type f -exec sed -i 's/$/\r/' {} +
  for way in plain other; do
    (cd "$work/$way" && $PLIMSOLL plan $files "$@" --out ../plan.json >/dev/null 2>&1 &&
      $PLIMSOLL apply ../plan.json >/dev/null 2>&1
      find . -name '*.backup' -delete && rm -rf .plimsoll)
  done
  (cd "$work/plain" && find . -type f ! -name 'ds_*.json' -exec sed -i 's/$/\r/' {} +)
  local changed=$(diff -rq "$work/plain" "$here/fixtures/$fixture" | wc -l)
  diff -r "$work/plain" "$work/other" && echo "$name: the same, files that differ from before: $((changed > 0))"
  rm -rf "$work"
}
both "keys of a trainer" small train.yaml --gpu 12GiB --fix alloc_conf=default --fix liger=on
both "Python" seed0 "config/config.py train_baseline.py" --gpu 24GiB --fix alloc_conf=default --fix liger=on --fix chunked_loss=off
both "a DeepSpeed file" share/hf train.py --gpu 24GiB --world 8 --fix strategy=zero3 --fix alloc_conf=default --fix chunked_loss=off
cat >ax.yml <<'EOF'
base_model: Qwen/Qwen2.5-1.5B
sequence_len: 1024
micro_batch_size: 8
plugins:
  - axolotl.integrations.spectrum.SpectrumPlugin
bf16: true
EOF
printf '\xef\xbb\xbf' | cat - ax.yml >bom.yml && sed 's/$/\r/' ax.yml >crlf.yml
for file in ax.yml bom.yml crlf.yml; do
  $PLIMSOLL plan $file --gpu 80GiB --try liger=on --out plan.json >/dev/null && $PLIMSOLL apply plan.json | head -1
done
sed 's/$/\r/' ax.yml | cmp - crlf.yml && printf '\xef\xbb\xbf' | cat - ax.yml | cmp - bom.yml && tail -6 ax.yml
