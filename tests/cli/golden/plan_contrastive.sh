# Anchors with positives and negatives: all of them are encoded, accumulation needs an answer from the user, a cached
# loss is suggested instead, and positives and negatives per anchor are custom knobs. plimsoll.yaml next to the files
# maps all names.
mkdir -p own/conf && cd own || exit 9
cat >conf/run.yaml <<'END'
encoder: bert-base-uncased
train: {bs: 32, steps_acc: 2}
data: {len: 128, positive: 1, negative: 6}
END
cat >plimsoll.yaml <<'END'
knobs:
  model: conf/run.yaml:encoder
  micro_batch: conf/run.yaml:train.bs
  accumulate: conf/run.yaml:train.steps_acc
  sequence: conf/run.yaml:data.len
  n_positives: {file: conf/run.yaml, key: data.positive}
  n_negatives: conf/run.yaml:data.negative
END
$PLIMSOLL plan conf/run.yaml --gpu 4GiB | tail -n +2
echo "== allowed"
$PLIMSOLL plan conf/run.yaml --gpu 4GiB --allow n_negatives | grep -E "^(planned|[-+]|n_|micro)"
echo "== as many sequences without anchors"
sed -i 's/bs: 32/bs: 256/; s/, positive: 1, negative: 6//' conf/run.yaml && sed -i '/n_/d' plimsoll.yaml
$PLIMSOLL plan conf/run.yaml --gpu 14GiB | grep "^now:"
echo "== keys that are not there"
$PLIMSOLL plan conf/run.yaml --gpu 14GiB --set micro_batch=conf/run.yaml:train.bz
$PLIMSOLL plan conf/run.yaml --gpu 14GiB --set micro_batch=conf/run.yaml:foo
