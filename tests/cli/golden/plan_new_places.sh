# A missing key is added where --set says, or next to Hydra's overrides of its group, in their style.
cat >home.yaml <<'EOF'
model: qwen2.5-1.5b
train:
  batch_size: 8
  seq_len: 1024
EOF
cat >run.sh <<'EOF'
python src/train.py --config-name=train.yaml \
  model.model_args.pretrained_model_name_or_path=qwen2.5-1.5b \
  trainer.args.per_device_train_batch_size=${BATCH:-4} \
  trainer.args.gradient_accumulation_steps=4 \
  +trainer.args.bf16=true +data.max_seq_length=1024
EOF
show() { sed -n '/^to do by hand/p; /^diff/p; /^[-+][^-+]/p; /^error/p' | grep -v "^-c"; }
held="--gpu 80GiB --fix micro_batch=4 --fix alloc_conf=default --fix chunked_loss=off"
echo "== overrides"
$PLIMSOLL plan run.sh $held --fix liger=on --fix attention=flash --fix checkpoint=on | show
echo "== a place of one's own: a key, a mapping that is not there, an override, a flag"
home="home.yaml --gpu 80GiB --fix micro_batch=8 --fix alloc_conf=default --fix chunked_loss=off --fix optimizer=adamw"
$PLIMSOLL plan $home --fix checkpoint=on --set checkpoint=home.yaml:train.memory.ckpt | show
$PLIMSOLL plan run.sh --gpu 80GiB --fix micro_batch=4 --fix liger=off --fix chunked_loss=256 --set chunked_loss=run.sh:trainer.args.loss_chunk | show
$PLIMSOLL plan run.sh --gpu 80GiB --fix micro_batch=4 --fix liger=off --fix chunked_loss=256 --set chunked_loss=run.sh:--loss-chunk | show
echo "== what is nearly a key is a mistake"
$PLIMSOLL plan $home --set checkpoint=home.yaml:train.seq_lem
$PLIMSOLL plan $home --set micro_batch=home.yaml:train.per_gpu
