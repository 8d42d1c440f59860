"""Plimsoll makes deep-learning training fit in GPU memory: how much a step needs, the fastest settings that fit, and what
used the memory. It needs no GPU and no PyTorch.

    import plimsoll

    plimsoll.estimate("qwen2.5-7b", lora_rank=16, gpu="4090")
    plimsoll.plan("train.yaml", gpu="24GiB")
    plimsoll.replay("snapshot.pickle")

Options are those of the command of the same name (`plimsoll help estimate`), with _ in place of -. A notebook shows the
results as pictures; their attribute `json` has everything that the command prints with --json. If a request or a file is
wrong, `plimsoll.Error` is raised.
"""

from __future__ import annotations

import os
import site
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Type, Union

from . import _library
from ._answers import (
    Candidate,
    Change,
    Document,
    Estimate,
    Gpu,
    Model,
    Moment,
    Note,
    Plan,
    Report,
    Settings,
    SnapshotTimeline,
    Timeline,
)
from ._library import Error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import EstimateOptions, PlanOptions, ReplayOptions

__version__ = _library.version
__all__ = [
    "Candidate", "Change", "Document", "Error", "Estimate", "Gpu", "Model", "Moment", "Note", "Plan", "Report", "Settings",
    "Snapshot", "SnapshotTimeline", "Timeline", "dialects", "estimate", "gpus", "models", "page", "plan",
    "plans", "replay", "settings",
]  # fmt: skip

Path = Union[str, "os.PathLike[str]"]
_COLUMNS = 300  # of a drawn curve


def _request(options: Mapping[str, Any], **others: Any) -> bytes:
    return _library.text_of({**options, **others})


def estimate(
    model: Union[Path, Mapping[str, Any], None] = None,
    *,
    timeline: int = _COLUMNS,
    **options: Unpack[EstimateOptions],
) -> Estimate:
    """Predicts the memory of a training step.

    `model` is a name (`models()`), a Hugging Face id in the local cache, the path of a config.json or what it contains.
    `timeline` is the number of columns of the memory over time; 0 leaves it out.

    >>> e = estimate("qwen2.5-7b", lora_rank=16, seq=2048, gpu="4090")
    >>> e.fits, e.needed_bytes
    (False, 41034973184)
    >>> estimate("qwen2.5-7b", lora_rank=16, seq=2048, gpu="4090", checkpoint=True).fits
    True
    """
    return Estimate.of(_library.ask("estimate", _request(options, model=model, timeline=timeline or None)))


def plan(*files: Path, model: Union[Path, Mapping[str, Any], None] = None, **options: Unpack[PlanOptions]) -> Plan:
    """Finds the fastest settings that fit, from the user's files or from a model and options. Files are only read;
    `plimsoll plan --out plan.json` and `plimsoll apply` write a plan into them.

    >>> p = plan(model="llama-3.2-1b", seq=4096, gpu="3060")
    >>> p.fits
    True
    >>> p.chosen.prediction.needed_bytes < p.budget_bytes
    True
    """
    found = plans(*files, model=model, **options)
    if len(found) > 1:
        raise Error("gpu names several GPUs, but a plan is for one", "plimsoll.plans(...) returns a plan for each")
    return found[0]


def plans(
    *files: Path, model: Union[Path, Mapping[str, Any], None] = None, **options: Unpack[PlanOptions]
) -> List[Plan]:
    """Finds a plan for each of several GPUs.

    >>> for p in plans(model="qwen2.5-0.5b", seq=2048, gpu="8GiB,4090"):
    ...     print(p.gpu, p.fits)
    8.00 GiB True
    RTX 4090 True
    """
    answer = _library.ask("plan", _request(options, files=list(files) or None, model=model))
    cards = answer.pop("cards", [{}])
    return [Plan.of({**answer, **card}) for card in cards]


def replay(snapshot: Path, **options: Unpack[ReplayOptions]) -> Report:
    """Explains a memory snapshot that torch.cuda.memory._dump_snapshot() or `plimsoll run` wrote.

    >>> report = replay("snapshot.pickle.xz")
    >>> report.steps, report.figures["peak_reserved_bytes"]
    (3, 9367977984)
    """
    with Snapshot(snapshot, **options) as s:
        return s.report()


class Snapshot:
    """A memory snapshot that is looked at more than once.

        with plimsoll.Snapshot("snapshot.pickle") as snapshot:
            snapshot.report()
            snapshot.replay(alloc_conf="expandable_segments:True", limit="24GiB")
            snapshot.timeline(columns=1200)
            snapshot.moment(1234)

    One thread at a time may use it.
    """

    def __init__(self, snapshot: Path, **options: Unpack[ReplayOptions]) -> None:
        self._snapshot = _library.snapshot_open({**options, "snapshot": snapshot})
        self._is_open = True

    def _opened(self) -> Any:
        if not self._is_open:
            raise Error("the snapshot is closed", "open it again: plimsoll.Snapshot(path)")
        return self._snapshot

    def report(self) -> Report:
        """What `plimsoll replay` reports."""
        answer = _library.ask("snapshot_report", self._opened())
        return Report.of(answer, timeline=self.timeline(_COLUMNS))

    def replay(self, **options: Unpack[ReplayOptions]) -> None:
        """Replays the recording with other settings, which later calls use; without any, with the recorded ones."""
        _library.snapshot_replay(self._opened(), options)

    def timeline(self, columns: int = 1200, first: int = 0, end: Optional[int] = None) -> SnapshotTimeline:
        """Memory over time, from the event `first` up to the event `end`, which is left out."""
        request = _library.text_of({"columns": columns, "from": first, "to": end})
        return SnapshotTimeline.of(_library.ask("snapshot_timeline", self._opened(), request))

    def moment(self, event: int) -> Moment:
        """Who holds the memory after so many events."""
        return Moment.of(_library.ask("snapshot_moment", self._opened(), _library.text_of({"event": event})))

    def close(self) -> None:
        """Frees the memory of the snapshot; it is an error to use it afterwards."""
        if self._is_open:
            self._is_open = False
            _library.snapshot_close(self._snapshot)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.close()


def settings(
    dialect: str, model: Union[Path, Mapping[str, Any], None] = None, **options: Unpack[EstimateOptions]
) -> Settings:
    """Writes options of `estimate` as the settings of a trainer, one of `dialects()`.

    >>> print(settings("axolotl", "qwen2.5-7b", lora_rank=16, batch=2).text.splitlines()[0])
    base_model: Qwen/Qwen2.5-7B
    """
    return Settings.of(_library.ask("settings", _request(options, model=model, dialect=dialect)))


def dialects() -> List[str]:
    """The trainers for which `settings` can write options.

    >>> dialects()[:3]
    ['axolotl', 'llama-factory', 'transformers']
    """
    answer = _library.ask("settings", b"{}")
    return [row["name"] for row in answer["dialects"]]


def models() -> List[Model]:
    """The models that plimsoll knows by name.

    >>> [model.name for model in models()][:2]
    ['llama-3.2-1b', 'llama-3.2-3b']
    """
    return [Model.of(row) for row in _library.ask("list", b"models")["models"]]


def gpus() -> List[Gpu]:
    """The GPUs that plimsoll knows by name.

    >>> [gpu.name for gpu in gpus() if gpu.name.startswith("H")]
    ['H100 SXM', 'H100 PCIe', 'H100 NVL', 'H200']
    """
    return [Gpu.of(row) for row in _library.ask("list", b"gpus")["gpus"]]


def page() -> str:
    """The path of a web page that estimates, plans and shows snapshots in the browser; nothing is uploaded.

    >>> import webbrowser
    >>> webbrowser.open("file://" + page())  # doctest: +SKIP
    """
    package = os.path.dirname(os.path.abspath(__file__))
    # pip puts shared data into the environment, into the user's folder or, with --target, beside the package.
    for folder in (os.path.dirname(package), sys.prefix, site.getuserbase()):
        path = os.path.join(folder, "share", "plimsoll", "plimsoll.html")
        if os.path.exists(path):
            return path
    raise Error("the page is not installed with this package")
