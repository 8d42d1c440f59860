# plan -- COMMAND: mistakes are found before the program runs.
export XDG_STATE_HOME=$PWD/state
try() { $PLIMSOLL plan "$@"; echo "exit $?"; }
cat >train.py <<'END'
import torch
BATCH = 8
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x in torch.utils.data.DataLoader(data, batch_size=BATCH):
    model(x).sum().backward()
    optimizer.step()
END
sed 's/batch_size=BATCH/batch_size=len(data)/' train.py >open.py
{
  try train.py --gpu 24GiB -- python train.py
  try --gpu 24GiB --lora-rank 8 -- python train.py
  try --gpu 24GiB --out train.py -- python train.py
  try --gpu 24GiB,80GiB -- python train.py
  try --gpu nonsense -- python train.py
  try --gpu 24GiB --effective-batch 0 -- python train.py
  try --gpu 24GiB --effective-batch 64 -- python train.py
  try --gpu 24GiB --fix nonsense=1 -- python train.py
  try --gpu 24GiB --margin 95% -- python train.py
  try --gpu 24GiB --unsandboxed -- python train.py
  try --gpu 24GiB -- python open.py
  try --gpu 24GiB -- python nowhere.py
  try --gpu 24GiB --set micro_batch=train.py:SIZE -- python train.py
} 2>&1
ls state 2>/dev/null
