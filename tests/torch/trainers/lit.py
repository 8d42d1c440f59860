"""Lightning's Trainer, which saves a checkpoint every second step. The samples get longer after five steps."""
import argparse

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--accumulate_grad_batches", type=int, default=1)
parser.add_argument("--devices", type=int, default=1)
args, _ = parser.parse_known_args()


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 16 * 8

    def __getitem__(self, i):
        return torch.ones(4096 if i >= 16 * 5 else 512, 512)


def collate(rows):
    longest = max(len(r) for r in rows)
    return torch.stack([torch.nn.functional.pad(r, (0, 0, 0, longest - len(r))) for r in rows])


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])

    def training_step(self, batch, index):
        return self.layers(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


trainer = lightning.Trainer(
    max_epochs=1,
    devices=args.devices,
    strategy="ddp" if args.devices > 1 else "auto",
    accumulate_grad_batches=args.accumulate_grad_batches,
    use_distributed_sampler=False,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint(dirpath="saved", every_n_train_steps=2, save_top_k=-1)],
)
trainer.fit(Model(), torch.utils.data.DataLoader(Samples(), batch_size=args.batch_size, collate_fn=collate))
print("global step", trainer.global_step, "batch", args.batch_size, "x", args.accumulate_grad_batches, flush=True)
