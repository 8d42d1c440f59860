# Values that files compute are computed: the effective batch; the edit is made at the literal behind them.
mkdir p && cd p || exit 9
show() {
  echo "== $1" && shift
  $PLIMSOLL plan "$@" --model llama-3.2-1b --gpu 80GiB --try micro_batch=2 >out 2>err
  grep -oE "effective batch.*|^[-+][^-+].*|^(micro_batch|accumulate) .*:.*" out
  cat err
}
cat >root.sh <<'END'
NGPU=4
GLOBAL=128
MICRO=8
ACC=$((GLOBAL / MICRO / NGPU))
torchrun --nproc_per_node $NGPU train.py --per_device_train_batch_size ${MICRO} \
  --gradient_accumulation_steps "$ACC" --max_length 4096 --bf16 True --gradient_checkpointing True
END
show "a quotient of variables: its root is edited, and it follows" root.sh
cat >fields.py <<'END'
class Config:
    batch_size: int = 2 * 8
    grad_accum: int = 64 // 16
    max_length: int = 2048
    bf16: bool = True
    gradient_checkpointing: bool = True
END
show "products and quotients of numbers" fields.py
cat >parsed.py <<'END'
parser.add_argument("--bs", type=int, default=16)
parser.add_argument("--total", type=int, default=64)
a = parser.parse_args()
args = TrainingArguments("o", per_device_train_batch_size=a.bs, gradient_accumulation_steps=a.total // a.bs, bf16=True)
END
show "arguments" parsed.py
cat >environment.py <<'END'
BS = int(os.environ.get("BS", "16"))
args = TrainingArguments("o", per_device_train_batch_size=BS, gradient_accumulation_steps=max(1, 64 // BS), bf16=True)
END
show "the environment, by its default" environment.py
printf 'base_model: x\nmicro_batch_size: ${oc.env:BS,8}\ngradient_accumulation_steps: 4\nsequence_len: 512\nsample_packing: false\nbf16: true\n' >omega.yaml
show "OmegaConf's environment" omega.yaml
echo 'python train.py --per_device_train_batch_size 8 --gradient_accumulation_steps=4 --max_length 512 --bf16 --per-device-train-batch-size=16' >twice.sh
show "the later flag, in another spelling" twice.sh
cat >loaders.py <<'END'
BATCH_SIZE = 16
class Module(LightningModule):
    def train_dataloader(self):
        return DataLoader(self.train_data, batch_size=BATCH_SIZE, shuffle=True)
    def val_dataloader(self):
        return DataLoader(self.data, batch_size=32)
test_loader = DataLoader(data, batch_size=64)
loader = DataLoader(validation, batch_size=128)
trainer = Trainer(accumulate_grad_batches=2, max_epochs=3, precision="bf16-mixed")
END
show "loaders of validation are not the batch" loaders.py
