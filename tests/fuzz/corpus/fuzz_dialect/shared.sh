3N=8
python train.py --per_device_train_batch_size $N --save_steps $N
