# Stages of one training with different memory: the largest one decides, in plan and check, whether stages are detected
# or named in plimsoll.yaml. Values that differ are fixed. If no stage is the largest in all counts, they are unclear.
export HF_HOME=nowhere PLIMSOLL_NVML=none PLIMSOLL_ROOT=fixtures/check/machine
mkdir -p conf
cat >conf/config.yaml <<'Y'
model:
  base_model_name: sentence-transformers/all-MiniLM-L6-v2
data_loader:
  batch_size: 16
  tokenization: {max_length: 128}
training:
  trainer: {accumulate_grad_batches: 4, precision: 16-mixed, devices: 1}
Y
printf 'n_positives: 16\nn_negatives: 8\n' >conf/01.yaml
printf 'n_positives: 32\nn_negatives: 24\n' >conf/02.yaml
printf 'n_positives: 16\nn_negatives: 8\n' >conf/03.yaml
lines="note|^now:|^planned|samples per batch|NOTHING|takes most|     conf/|n_negatives"
$PLIMSOLL plan conf/config.yaml conf/0?.yaml -g 6GiB --allow micro_batch | grep -E "$lines"
$PLIMSOLL plan conf/config.yaml conf/0?.yaml -g 6GiB --contrastive | grep -E "^now:"
$PLIMSOLL check conf/config.yaml conf/0?.yaml -g 6GiB | grep -E "fit|most memory|conf/02.yaml$"
echo "-- named"
sed -i 's/n_pos/pos/; s/n_neg/neg/' conf/0?.yaml
cat >plimsoll.yaml <<'Y'
knobs:
  n_positives: [conf/01.yaml:positives, conf/02.yaml:positives]
  n_negatives: [conf/01.yaml:negatives, conf/02.yaml:negatives]
Y
$PLIMSOLL plan conf/config.yaml -g 6GiB --allow micro_batch | grep -E "$lines"
echo "-- neither has the most of both"
printf 'negatives: 32\nlength: 64\n' >conf/01.yaml
printf 'negatives: 24\nlength: 128\n' >conf/02.yaml
cat >plimsoll.yaml <<'Y'
knobs:
  sequence: [conf/01.yaml:length, conf/02.yaml:length]
  n_negatives: [conf/01.yaml:negatives, conf/02.yaml:negatives]
Y
$PLIMSOLL plan conf/config.yaml -g 6GiB
$PLIMSOLL check conf/config.yaml -g 6GiB | grep -A1 "cannot tell"
