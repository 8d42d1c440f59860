"""`plimsoll run` starts a program again after it ran out of memory. If the program's trainer is that of transformers or of
Lightning and the program does not say where to resume, it resumes from the last checkpoint that this run has written.

$PLIMSOLL_RESUME is the time at which the run began, in seconds since 1970: older checkpoints belong to somebody else."""
import functools
import glob
import os
import re

import plimsoll_imports
import plimsoll_live


def install():
    plimsoll_imports.after("transformers.trainer", _watch_transformers)
    for name in "lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer":
        plimsoll_imports.after(name, _watch_lightning)


def _time(path):
    """When it was written; 0 if it was removed meanwhile, as trainers do with old checkpoints."""
    try:
        return os.path.getmtime(path)
    except OSError:
        return 0.0


def _is_ours(path):
    return _time(path) >= float(os.environ["PLIMSOLL_RESUME"])


def _last_checkpoint(folder):
    """The newest whole one, as (steps, path): trainer_state.json is written last."""
    found = []
    for path in glob.glob(os.path.join(glob.escape(folder or "."), "checkpoint-*")):
        number = re.fullmatch(r"checkpoint-(\d+)", os.path.basename(path))
        state = os.path.join(path, "trainer_state.json")
        if number and _is_ours(state):
            found.append((int(number.group(1)), path))
    return max(found, default=(0, None))


def _watch_transformers(module):
    train = module.Trainer.train

    @functools.wraps(train)
    def resumed(self, resume_from_checkpoint=None, *args, **kwargs):
        if not resume_from_checkpoint:
            steps, resume_from_checkpoint = _last_checkpoint(self.args.output_dir)
            plimsoll_live.resume(resume_from_checkpoint, steps)
        return train(self, resume_from_checkpoint, *args, **kwargs)

    module.Trainer.train = resumed


def _watch_lightning(module):
    fit = module.Trainer.fit

    @functools.wraps(fit)
    def resumed(self, *args, **kwargs):
        if len(args) < 5 and not kwargs.get("ckpt_path"):  # its place among the arguments
            paths = glob.glob(os.path.join(glob.escape(self.default_root_dir), "**", "*.ckpt"), recursive=True)
            newest = max(filter(_is_ours, paths), key=_time, default=None)
            steps = re.search(r"step=(\d+)", os.path.basename(newest or ""))  # in Lightning's usual names
            plimsoll_live.resume(newest, int(steps.group(1)) if steps else 0)
            kwargs["ckpt_path"] = newest
        return fit(self, *args, **kwargs)

    module.Trainer.fit = resumed
