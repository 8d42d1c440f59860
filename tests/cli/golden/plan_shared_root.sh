# A value that other settings are computed from stays, with what would move.
work=$(mktemp -d) && cd "$work" || exit 9
cat >run.sh <<'END'
N=8
python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size $N \
  --gradient_accumulation_steps 2 --save_total_limit $N --learning_rate 1e-$N
END
$PLIMSOLL plan run.sh --gpu 8GiB --seq 1024 --fix micro_batch=4 | sed -n '/^to do by hand/,/^$/p'
rm -rf "$work"
