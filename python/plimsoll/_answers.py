"""What the functions return. Each keeps the JSON document from which it was made, as `json`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, TypeVar

from . import _draw
from ._library import Error

Json = Dict[str, Any]
_T = TypeVar("_T", bound="Document")


def size(count: Optional[float]) -> str:
    """A number of bytes as the program prints it.

    >>> size(25250758656)
    '23.5 GiB'
    """
    if count is None:
        return "unknown"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    digits = 0 if abs(count) >= 100 or unit == "B" else 1 if abs(count) >= 10 else 2
    return f"{count:.{digits}f} {unit}"


def line_of(row: Mapping[str, Any]) -> str:
    """A line of code as the program prints it.

    >>> line_of({"file": "site-packages/transformers/activations.py", "line": 99, "function": "forward"})
    'activations.py:99 (forward)'
    """
    if not row.get("file"):
        return "(no stack)"
    return f"{row['file'].rsplit('/', 1)[-1]}:{row['line']} ({row['function']})"


@dataclass(frozen=True, repr=False)
class Document:
    """An answer. Its attributes are members of the document; `json` has all of them."""

    json: Json

    @classmethod
    def of(cls: Type[_T], json: Json, **others: Any) -> _T:
        """Takes the members that the class has a name for."""
        own = {f.name: json.get(f.name) for f in fields(cls) if f.name not in ("json", *others)}
        return cls(json=json, **own, **others)

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name != "json")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Note(Document):
    """Something to know about an answer: an assumption, or what was not understood."""

    code: str
    message: str
    file: Optional[str] = None
    line: Optional[int] = None
    knob: Optional[str] = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else ""
        return place + self.message


def _notes(json: Json) -> List[Note]:
    return [Note.of(note) for note in json.get("notes") or []]


# ---- estimate -----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Timeline(Document):
    """Memory over time: one number per column in each list."""

    columns: int
    event: List[int]
    step: List[int]
    reserved_bytes: List[int]
    allocated_bytes: List[int]
    parts: Dict[str, List[int]]  #: allocated_bytes by what it is for
    peak: int  #: the column with the most memory
    limit_bytes: Optional[int]

    def __repr__(self) -> str:
        peak = size(max(self.reserved_bytes, default=0))
        return f"Timeline of {self.columns} columns, at most {peak} reserved"

    def _repr_svg_(self) -> str:
        return _draw.curve_alone(self)


@dataclass(frozen=True, repr=False)
class Estimate(Document):
    """The predicted memory of a training step."""

    fits: Optional[bool]  #: None if no GPU and no limit was named
    needed_bytes: int  #: the GPU memory that the run needs, with CUDA's own
    at_least_bytes: Optional[int]  #: what is in use, if the memory that PyTorch reserves would keep growing
    interval_bytes: Tuple[int, int]  #: the range in which the need is expected
    budget_bytes: Optional[int]  #: what the GPU offers
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    host_bytes: int
    components: Dict[str, int]  #: the need by what it is for
    step_seconds: Optional[float]
    tokens_per_second: Optional[float]
    params: int
    trainable: int
    unverified: List[str]  #: what was never compared with a real run
    notes: List[Note] = field(default_factory=list)
    timeline: Optional[Timeline] = None
    title: str = ""

    @classmethod
    def of(cls, json: Json, **others: Any) -> Estimate:
        timeline = json.get("timeline")
        return super().of(
            json,
            interval_bytes=tuple(json["interval_bytes"]),
            notes=_notes(json),
            timeline=Timeline.of(timeline) if timeline else None,
            title=others.get("title") or json.get("model") or "",
        )

    @property
    def verdict(self) -> str:
        """Whether it fits, in words."""
        low, high = self.interval_bytes
        need = f"needs {size(self.needed_bytes)} (between {size(low)} and {size(high)})"
        if self.at_least_bytes is not None:
            need = f"needs at least {size(self.at_least_bytes)}"
        if self.fits is None or self.budget_bytes is None:
            return need
        return f"{'FITS' if self.fits else 'DOES NOT FIT'}: {need}, {size(self.budget_bytes)} available"

    @property
    def shown(self) -> Dict[str, int]:
        """The components that are shown: without fragmentation if that would keep growing."""
        is_endless = self.at_least_bytes is not None
        return {n: c for n, c in self.components.items() if c and not (is_endless and n == "fragmentation")}

    def __repr__(self) -> str:
        lines = [f"{self.title}: {self.verdict}" if self.title else self.verdict]
        total = sum(self.shown.values())
        for name, count in self.shown.items():
            lines.append(f"  {name:<14}{size(count):>9}  {round(100 * count / total):>3} %")
        if self.step_seconds:
            lines.append(f"  {self.step_seconds:.3g} s per step")
        lines += [f"  unverified: {text}" for text in self.unverified]
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        return _draw.estimate(self)

    def _repr_html_(self) -> str:
        return _draw.page(self._repr_svg_(), [str(note) for note in self.notes] + self.unverified)


# ---- plan ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Candidate(Document):
    """Settings and what they are predicted to need."""

    settings: Dict[str, Any]
    prediction: Estimate
    request: Optional[Json]  #: estimate(**request) predicts the same run again
    evaluation_bytes: Optional[int]  #: that evaluation needs at least, if more than the prediction

    @classmethod
    def of(cls, json: Json, **others: Any) -> Candidate:
        others_than_settings = ("estimate", "request", "evaluation_bytes")
        settings = {k: v for k, v in json.items() if k not in others_than_settings}
        prediction = Estimate.of(json["estimate"], **others)
        return cls(
            json=json,
            settings=settings,
            prediction=prediction,
            request=json.get("request"),
            evaluation_bytes=json.get("evaluation_bytes"),
        )

    def estimate(self) -> Estimate:
        """Predicts the same run again, with the memory over time."""
        from . import estimate

        if self.request is None:
            raise Error("these settings cannot be predicted on their own")
        return estimate(**self.request)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.prediction.verdict}\n  {settings}"


@dataclass(frozen=True, repr=False)
class Change(Document):
    """One setting that a plan changes."""

    knob: str
    saves_bytes: Optional[int]
    costs_seconds: Optional[float]
    is_needed: Optional[bool]  #: without it, the plan would not fit
    why: Optional[str]
    before: Any = None
    after: Any = None

    @classmethod
    def of(cls, json: Json, **others: Any) -> Change:
        return super().of(json, before=json.get("from"), after=json.get("to"))

    def __repr__(self) -> str:
        return f"{self.knob}: {_word(self.before)} -> {_word(self.after)}"


def _word(value: Any) -> str:
    if value is None:
        return "not set"
    if value == "unchanged":  # settings of the allocator, which the change names
        return "as it is"
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True, repr=False)
class Plan(Document):
    """The fastest settings that fit, and the fallbacks that need less memory."""

    fits: Optional[bool]
    model: str
    gpu: Optional[str]
    budget_bytes: Optional[int]
    before: Optional[Estimate]  #: the settings as they are now
    chosen: Optional[Candidate]
    changes: List[Change]
    ladder: List[Candidate]  #: the chosen settings and the fallbacks, fastest first
    environment: Dict[str, str]  #: variables to set
    reproduce: Optional[str]  #: the command line that predicts the plan again
    notes: List[Note]

    @classmethod
    def of(cls, json: Json, **others: Any) -> Plan:
        before, chosen = json.get("before"), json.get("chosen")
        return super().of(
            json,
            before=Estimate.of(before, title="now") if before else None,
            chosen=Candidate.of(chosen, title="planned") if chosen else None,
            changes=[Change.of(change) for change in json.get("changes") or []],
            ladder=[Candidate.of(row) for row in json.get("ladder") or []],
            environment=dict(json.get("environment") or {}),
            notes=_notes(json),
        )

    @property
    def timeline(self) -> Optional[Timeline]:
        """The memory over time with the chosen settings."""
        alike = (row for row in self.ladder if self.chosen and row.settings == self.chosen.settings)
        row = next(alike, None)
        return row.estimate().timeline if row and row.request else None

    def __repr__(self) -> str:
        lines = [f"{self.model} on {self.gpu}" if self.gpu else self.model]
        if self.before is not None:
            lines.append(f"now:     {self.before.verdict}")
        if self.chosen is not None:
            lines.append(f"planned: {self.chosen.prediction.verdict}")
            if self.chosen.prediction.step_seconds:
                lines[-1] += f", {self.chosen.prediction.step_seconds:.3g} s per step"
        else:
            lines.append("nothing fits")
        lines += [f"  {change!r}" for change in self.changes]
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        return _draw.plan(self)

    def _repr_html_(self) -> str:
        rows = [
            (change.knob, _word(change.before), _word(change.after), size(change.saves_bytes), change.why or "")
            for change in self.changes
        ]
        table = _draw.table(("setting", "now", "planned", "saves", "why"), rows)
        return _draw.page(self._repr_svg_() + table, [str(note) for note in self.notes])


# ---- replay -------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Report(Document):
    """What a memory snapshot shows."""

    file: str
    steps: int
    exact: bool  #: the simulation made every decision of PyTorch, down to the addresses
    limit_bytes: Optional[int]
    recorded: Json
    simulated: Json
    peak: Json
    holders: List[Json]  #: lines of code that hold the peak, largest first
    holders_by_kind_bytes: Dict[str, int]
    ooms: List[Json]
    leaks: Optional[List[Json]]  #: None if the snapshot has too few steps to tell
    duplicates: List[Json]
    tune: List[Json]
    notes: List[Note] = field(default_factory=list)
    timeline: Optional[SnapshotTimeline] = None

    @classmethod
    def of(cls, json: Json, **others: Any) -> Report:
        return super().of(json, notes=_notes(json), **others)

    @property
    def figures(self) -> Json:
        """The recorded peaks, or those under other settings if the snapshot was replayed with some."""
        figures: Json = self.json[self.json.get("moments_of") or "recorded"]
        return figures

    @property
    def leak_texts(self) -> List[str]:
        """The leaks in words."""
        return [f"LEAK {size(leak['bytes_per_step'])} per step at {line_of(leak)}" for leak in self.leaks or []]

    def __repr__(self) -> str:
        shown = self.figures
        lines = [
            f"{self.file}: peak {size(shown['peak_allocated_bytes'])} allocated,"
            f" {size(shown['peak_reserved_bytes'])} reserved, {self.steps} steps"
        ]
        kinds = sorted(self.holders_by_kind_bytes.items(), key=lambda row: -row[1])
        lines += [f"  {name:<16}{size(count):>9}" for name, count in kinds if count]
        for oom in self.ooms:
            lines.append(f"  OUT OF MEMORY when requesting {size(oom['request_bytes'])} in step {oom['step']}")
        lines += [f"  {text}" for text in self.leak_texts]
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        return _draw.report(self)

    def _repr_html_(self) -> str:
        rows = [(size(h["bytes"]), h["kind"], line_of(h)) for h in self.holders[:10]]
        table = _draw.table(("at the peak", "main kind", "line"), rows)
        return _draw.page(self._repr_svg_() + table, [str(note) for note in self.notes])


@dataclass(frozen=True, repr=False)
class SnapshotTimeline(Timeline):
    """Memory over time, as a snapshot recorded it or as it was replayed."""

    entry: List[int]  #: number of the entry in the snapshot
    seconds: List[Optional[float]]
    highest_reserved_bytes: List[int]
    marks: List[Json]  #: columns with failures, retries and emptied caches
    holders: List[List[Mapping[str, int]]]  #: the lines of code that hold the most, by their number in `lines`
    lines: List[str]
    steps: List[Json]


@dataclass(frozen=True, repr=False)
class Moment(Document):
    """Who holds the memory after one event of a snapshot."""

    def __repr__(self) -> str:
        rows = [f"  {size(h['bytes']):>9}  {h['kind']:<16}{line_of(h)}" for h in self.json["holders"][:20]]
        return "\n".join(["memory is held by", *rows])


# ---- settings and names ---------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Settings(Document):
    """Options, written as the settings of a trainer."""

    dialect: str
    format: str
    text: str
    left_out: List[Any]  #: options for which the trainer has no setting

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Model(Document):
    """A model that plimsoll knows by name."""

    name: str
    id: str
    parameters: int
    dtype: str
    family: str
    max_tokens: Optional[int]


@dataclass(frozen=True, repr=False)
class Gpu(Document):
    """A GPU that plimsoll knows by name. A figure that is not known is None."""

    name: str
    memory_bytes: int
    cuda_bytes: Optional[int]  #: what CUDA offers of it
    compute_capability: Optional[float]
    bandwidth_gb_per_second: Optional[float]
    bf16_tflops: Optional[float]
