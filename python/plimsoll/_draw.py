"""Small pictures of answers, as SVG that is readable on light and dark pages: text has the page's own colour."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple

if TYPE_CHECKING:
    from ._answers import Estimate, Plan, Report, Timeline

_WIDTH = 720
_ALARM = "#dc4a3f"
# As in the pictures of the program (--svg): long-lived memory first, which is drawn at the bottom.
_COLORS = {
    "weights": "#264b7a",
    "parameters": "#264b7a",
    "adapters": "#a9d6e5",
    "optimizer": "#6fa3d8",
    "optimizer state": "#6fa3d8",
    "gradients": "#237c71",
    "other": "#a8a8a8",
    "leaked": "#b0184f",
    "workspace": "#5b4590",
    "workspaces": "#8b79b8",
    "activations": "#f3bc4e",
    "logits": "#d9603b",
    "temporaries": "#d9603b",
    "fragmentation": "#c9ced6",
    "context": "#8d95a3",
}


def _size(count: Optional[float]) -> str:
    from ._answers import size

    return size(count)


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _svg(height: float, *parts: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" '
        f'style="max-width:100%;height:auto;font:12px system-ui,sans-serif" fill="currentColor">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, color: str, title: str = "") -> str:
    title = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:g}" fill="{color}">{title}</rect>'


def _rows(components: Dict[str, int]) -> List[Tuple[str, int]]:
    order = list(_COLORS)
    return sorted(((n, c) for n, c in components.items() if c), key=lambda row: order.index(row[0]) if row[0] in order else 99)


# ---- the bar ------------------------------------------------------------------------------------


def _bar(y: float, components: Dict[str, int], limit: Optional[int], most: float) -> str:
    """What is needed, in its parts, and the limit as a mark above and below it."""
    parts, x, scale = [], 0.0, _WIDTH / most
    for name, count in _rows(components):
        parts.append(_rect(x, y, count * scale, 22, _COLORS.get(name, "#a8a8a8"), f"{name}: {_size(count)}"))
        x += count * scale
    if limit is not None:
        at = min(limit * scale, _WIDTH - 1)
        mark = f"<title>limit: {_size(limit)}</title>"
        parts.append(f'<path d="M{at:.1f} {y - 4:g}v30" stroke="currentColor" stroke-width="2">{mark}</path>')
    return "".join(parts)


def _legend(y: float, components: Dict[str, int]) -> Tuple[str, float]:
    """Names, colours and sizes; also returns the height."""
    columns, parts = 4, []
    rows = _rows(components)
    for i, (name, count) in enumerate(rows):
        x, top = (i % columns) * (_WIDTH / columns), y + (i // columns) * 18
        parts.append(_rect(x, top, 10, 10, _COLORS.get(name, "#a8a8a8")) + _text(x + 15, top + 9, f"{name} {_size(count)}"))
    return "".join(parts), -(-len(rows) // columns) * 18


# ---- the curve ----------------------------------------------------------------------------------


def _curve(y: float, height: float, timeline: Timeline) -> str:
    """Memory over time: what is allocated, in its parts, and the line of what is reserved."""
    count = timeline.columns
    if not count:
        return ""
    limit = timeline.limit_bytes
    highest = max(timeline.reserved_bytes)
    most = max(highest, limit if limit is not None and limit < 1.5 * highest else 0) or 1
    step, scale = _WIDTH / count, height / most

    def walk(levels: Sequence[int]) -> List[Tuple[int, int]]:
        """Along the columns from left to right: tenths of a pixel, each where the level begins to be another."""
        ys = [round(10 * (y + height - level * scale)) for level in levels]
        firsts = [i for i in range(count) if i == 0 or ys[i] != ys[i - 1]]
        return [(round(10 * i * step), ys[i]) for i in firsts] + [(10 * _WIDTH, ys[-1])]

    def path(points: Sequence[Tuple[int, int]], begin: str) -> str:
        """From point to point, first to the side and then up or down."""
        (x0, y0), moves = points[0], []
        for (x, level), (after_x, after) in zip(points, points[1:]):
            moves.append(f"h{(after_x - x) / 10:g}" + (f"v{(after - level) / 10:g}" if after != level else ""))
        return f"{begin}{x0 / 10:g} {y0 / 10:g}{''.join(moves)}"

    def back(points: Sequence[Tuple[int, int]]) -> str:
        """The same from right to left: up or down first."""
        (x0, y0), moves = points[-1], []
        for (x, level), (after_x, after) in zip(points[::-1], points[-2::-1]):
            moves.append((f"v{(after - level) / 10:g}" if after != level else "") + f"h{(after_x - x) / 10:g}")
        return f"L{x0 / 10:g} {y0 / 10:g}{''.join(moves)}"

    parts, below = [], [0] * count
    for name in sorted(timeline.parts, key=lambda n: list(_COLORS).index(n) if n in _COLORS else 99):
        if not any(timeline.parts[name]):
            continue
        tops = [a + b for a, b in zip(below, timeline.parts[name])]
        area = path(walk(tops), "M") + back(walk(below)) + "Z"
        parts.append(f'<path d="{area}" fill="{_COLORS.get(name, "#a8a8a8")}"><title>{escape(name)}</title></path>')
        below = tops
    line = path(walk(timeline.reserved_bytes), "M")
    parts.append(f'<path d="{line}" fill="none" stroke="currentColor" stroke-width="1"><title>reserved</title></path>')
    if limit is not None and limit <= most:
        at = y + height - limit * scale
        parts.append(f'<path d="M0 {at:.1f}H{_WIDTH}" stroke="{_ALARM}" stroke-dasharray="6 4"/>')
    parts.append(f'<path d="M0 {y + height:g}H{_WIDTH}" stroke="currentColor" stroke-opacity=".4"/>')
    for first in _firsts(timeline.step):
        parts.append(_text(first * step + 3, y + height + 13, f"step {timeline.step[first]}", 'fill-opacity=".7"'))
    return "".join(parts)


def _firsts(steps: Sequence[int]) -> List[int]:
    """Where steps begin, unless there are too many to name."""
    firsts = [i for i, step in enumerate(steps) if step and (i == 0 or steps[i - 1] != step)]
    return [i for i, after in zip(firsts, firsts[1:] + [len(steps)]) if after - i > len(steps) / 14]


def curve_alone(timeline: Timeline) -> str:
    peak = f"at most {_size(max(timeline.reserved_bytes, default=0))} reserved, {_size(max(timeline.allocated_bytes, default=0))} allocated"
    last = timeline.peak if 0 <= timeline.peak < timeline.columns else None
    at_peak = {name: values[last] for name, values in timeline.parts.items()} if last is not None else {}
    legend, height = _legend(210, at_peak)
    return _svg(212 + height, _text(0, 12, peak, 'font-weight="600"'), _curve(24, 160, timeline), legend)


# ---- answers ------------------------------------------------------------------------------------


def _verdict(x: float, y: float, answer: Estimate) -> str:
    color = f'fill="{_ALARM}" ' if answer.fits is False else ""
    return _text(x, y, f"{answer.title}: {answer.verdict}" if answer.title else answer.verdict, color + 'font-weight="600"')


def estimate(answer: Estimate) -> str:
    most = max(sum(answer.shown.values()), answer.budget_bytes or 0)
    legend, height = _legend(58, answer.shown)
    parts = [_verdict(0, 14, answer), _bar(26, answer.shown, answer.budget_bytes, most), legend]
    bottom = 62 + height
    if answer.timeline:
        parts.append(_curve(bottom, 120, answer.timeline))
        bottom += 138
    return _svg(bottom, *parts)


def plan(answer: Plan) -> str:
    planned = answer.chosen.prediction if answer.chosen else None
    bars = [e for e in (answer.before, planned) if e is not None]
    parts: List[str] = []
    y = 0.0
    most = max([sum(e.shown.values()) for e in bars] + [answer.budget_bytes or 1])
    for bar in bars:
        parts += [_verdict(0, y + 14, bar), _bar(y + 26, bar.shown, answer.budget_bytes, most)]
        legend, height = _legend(y + 58, bar.shown)
        parts.append(legend)
        y += 68 + height
    timeline = answer.timeline
    if timeline:
        parts.append(_curve(y, 120, timeline))
        y += 138
    if not answer.chosen:
        parts.append(_text(0, y + 14, "nothing fits", f'fill="{_ALARM}" font-weight="600"'))
        y += 24
    return _svg(y, *parts)


def report(answer: Report) -> str:
    figures = answer.figures
    title = f"peak {_size(figures['peak_allocated_bytes'])} allocated, {_size(figures['peak_reserved_bytes'])} reserved"
    parts = [_text(0, 14, title, 'font-weight="600"')]
    y = 24.0
    if answer.ooms:
        failed = _count(len(answer.ooms), "request")
        parts.append(_text(0, y + 10, f"out of memory at {failed}", f'fill="{_ALARM}"'))
        y += 20
    for leak in answer.leak_texts:
        parts.append(_text(0, y + 10, leak, f'fill="{_ALARM}"'))
        y += 20
    if answer.timeline:
        parts.append(_curve(y, 160, answer.timeline))
        y += 186
    legend, height = _legend(y, answer.holders_by_kind_bytes)
    return _svg(y + height, *parts, legend)


# ---- around the pictures ------------------------------------------------------------------------


def table(head: Iterable[str], rows: Sequence[Iterable[Any]]) -> str:
    if not rows:
        return ""
    cells = "".join(f"<th style='text-align:left'>{escape(text)}</th>" for text in head)
    lines = ("".join(f"<td style='text-align:left;vertical-align:top'>{escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"<table><tr>{cells}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def page(picture: str, notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    count = _count(len(notes), "note")
    more = f"<details><summary>{count}</summary><ul>{items}</ul></details>" if notes else ""
    return f"<div>{picture}{more}</div>"
