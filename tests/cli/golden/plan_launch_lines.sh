# The launch command has the arguments of the user's command without redirections and other shell syntax, so that it can
# be pasted. The arguments of an image are those of ENTRYPOINT and CMD.
echo 'model_name_or_path: fixtures/tiny
per_device_train_batch_size: 1
bf16: true
max_length: 1024' > train.yaml
line() {
  printf '%s\n' "$1" > run.sh
  $PLIMSOLL plan run.sh train.yaml -s 1024 --gpu 12GiB --fix strategy=zero3 --fix offload=parameters | grep "^ *deepspeed\|^ *torchrun"
}
line 'python3 train.py train.yaml 2>&1 | tee logs/training.log'
line 'python3 train.py train.yaml >log 2>err &'
line 'nohup python train.py < /dev/null train.yaml &>> log; echo done'
line 'cd here && python train.py \
  train.yaml --seed 1 && echo done || exit 1'
line 'LOG=$(date +%s).txt
ARGS=(other.py --x)
python -u -m torch.distributed.run train.py train.yaml |& tee $LOG'
line 'python -m my.module train.yaml 2> >(tee err)'
line 'python train.py "$@" 2>&1'
echo "== on two machines"
line 'python train.py train.yaml 2>&1 | tee log' >/dev/null
$PLIMSOLL plan run.sh train.yaml -s 1024 --gpu 4090 --world 16 --nodes 2 | grep -A2 "^ *torchrun"
echo "== an image"
image() {
  printf 'FROM a AS b\nCMD ["python", "other.py"]\nFROM c\n%s\n' "$1" > Dockerfile
  $PLIMSOLL plan Dockerfile train.yaml -s 1024 --gpu 12GiB --fix strategy=zero3 --fix offload=parameters | grep "^ *deepspeed\|in Dockerfile"
}
image 'CMD ["python", "train.py", "--config", "train.yaml"]'
image 'CMD ["--config", "train.yaml"]
ENTRYPOINT ["python", "train.py"]'
image 'CMD python train.py --config train.yaml 2>&1 | tee log'
image 'CMD ["python", "train.py", "--name", "two words"]'
