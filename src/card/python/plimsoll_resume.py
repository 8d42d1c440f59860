"""`plimsoll run` starts a program again after it ran out of memory. If the program's trainer is that of transformers or of
Lightning and the program does not say where to resume, it resumes from the last checkpoint that this run has written.

$PLIMSOLL_RESUME is the time at which the run began, in seconds since 1970: older checkpoints belong to somebody else."""
import functools
import glob
import os
import re
import zipfile

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


# ---- transformers ------------------------------------------------------------------------------------------


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


# ---- Lightning ---------------------------------------------------------------------------------------------


def _watch_lightning(module):
    fit = module.Trainer.fit

    @functools.wraps(fit)
    def resumed(self, *args, **kwargs):
        if len(args) < 5 and not kwargs.get("ckpt_path"):  # its place among the arguments
            newest = max(filter(_is_usable, _saved_by_lightning(self)), key=_time, default=None)
            kwargs["ckpt_path"] = newest
            if not newest:
                plimsoll_live.resume(None, 0)
        return fit(self, *args, **kwargs)

    module.Trainer.fit = resumed
    loop = getattr(module, "_FitLoop", None) or getattr(module, "FitLoop", None)  # the second before version 2
    if loop:
        loop.load_state_dict = _noticed(loop.load_state_dict)


def _saved_by_lightning(trainer):
    """Checkpoints in the folders that the trainer saves to. Loggers make another folder at every start: version_0, version_1."""
    folders = [c.dirpath for c in trainer.checkpoint_callbacks if getattr(c, "dirpath", None)]
    folders = [glob.escape(str(f)) for f in folders] + [os.path.join(glob.escape(trainer.default_root_dir), "checkpoints")]
    for logger in trainer.loggers:
        root = glob.escape(str(logger.save_dir or trainer.default_root_dir))
        folders.append(os.path.join(root, glob.escape(str(logger.name)), "*", "checkpoints"))
    return {path for folder in folders for path in glob.glob(os.path.join(folder, "**", "*.ckpt"), recursive=True)}


def _is_usable(path):
    """Whether a checkpoint is this run's and whole: a file that PyTorch writes is a ZIP file, whose directory comes last. A
    sharded checkpoint is a folder."""
    return _is_ours(path) and (os.path.isdir(path) or zipfile.is_zipfile(path))


def _noticed(load):
    """Lightning calls the function with what the checkpoint says about progress, in each rank."""

    @functools.wraps(load)
    def loaded(self, state, *args, **kwargs):
        steps = 0
        try:
            steps = _keep_steps(state, self.trainer.accumulate_grad_batches)
        except (AttributeError, KeyError, TypeError):  # another version, or manual optimization: Lightning's own count stays
            pass
        plimsoll_live.resume(self.trainer.ckpt_path, steps)
        return load(self, state, *args, **kwargs)

    return loaded


def _keep_steps(state, accumulation):
    """Returns the steps that were made. Lightning counts batches, so after a start with a smaller batch and more accumulation it
    would take those of the checkpoint for smaller ones and make more steps than before. Makes the count one of the present
    batches: in this epoch, `accumulation` of them for each step."""
    made = state["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]
    progress = state["epoch_loop.batch_progress"]
    steps, before = made["current"]["completed"], progress["current"]["ready"]
    if steps and before // steps != accumulation:
        for counts in progress["current"], progress["total"]:
            counts.update({name: count + steps * accumulation - before for name, count in counts.items()})
    return made["total"]["completed"]
