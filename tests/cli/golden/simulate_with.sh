# --with changes a setting where the program has it; what cannot be changed is an error before anything runs.
export XDG_STATE_HOME=$PWD/state
try() { $PLIMSOLL simulate --gpu 4090 "$@"; echo "exit $?"; } 2>&1
cat > train.py <<'PY'
import torch
from torch.utils.data import DataLoader
BATCH = 4
model = torch.nn.Linear(8, 8).cuda()
loader = DataLoader(data, batch_size=BATCH)
optimizer = torch.optim.AdamW(model.parameters())
for x in loader:
    model(x).sum().backward()
    optimizer.step()
PY
try --with micro_batch -- python train.py 2>&1
try --with micro_bach=2 -- python train.py 2>&1
try --with checkpoint=maybe -- python train.py 2>&1
try --with world=2 -- python train.py 2>&1
try --with micro_batch=2 --with batch=3 -- python train.py 2>&1
try --with alloc_conf=expandable:True -- python train.py 2>&1
try --with checkpoint=on -- python train.py 2>&1
try --with liger=on -- python train.py 2>&1
try --with micro_batch=2 -- python missing.py 2>&1
try --with micro_batch=2 --unsandboxed -- python train.py 2>&1
ls state 2>/dev/null
