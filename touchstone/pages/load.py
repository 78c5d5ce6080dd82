"""The machine's load as small charts: memory in use, memory pressure and throttling over the time of a run.

Geometry is computed here, in the units of the SVG; the template only writes it down. However long a run was, a chart
has at most `touchstone.load.BUCKETS` points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from touchstone.i18n import Words
from touchstone.load import PRESSURES, LoadFold, Span

WIDTH: Final = 440.0
TOP: Final = 22.0
HEIGHT: Final = 110.0
"""Of the memory chart, below TOP."""
BAND: Final = 18.0
NEARLY_FULL: Final = 0.95
GAP_WIDTHS: Final = 4
"""So many widths of a span without a sample: the run was interrupted, and no line is drawn across."""
GAP_S: Final = 10.0


def panel(load: LoadFold, words: Words) -> dict[str, Any] | None:
    """What the page shows of the load; None where nothing was recorded."""
    if not load.samples:
        return None
    return {
        "title": memory_finding(load, words),
        "sub": _measured(load, words),
        "memory": _memory(load, words),
        "bands": [band for band in (_pressure(load, words), _throttling(load, words)) if band is not None],
        "unknown": _unknown(load, words),
    }


def _measured(load: LoadFold, words: Words) -> str:
    parts = [words.n_("Measured once.", "Measured %(n)s times.", load.samples)]
    if load.first_ts is not None and load.last_ts is not None and load.last_ts > load.first_ts:
        span = words.span(load.last_ts - load.first_ts)
        parts.append(words._("From the first measurement to the last: %(span)s.", span=span))
    if load.swap_out:
        parts.append(words._("At most %(size)s a second were swapped out.", size=words.bytes(load.swap_out)))
    return " ".join(parts)


# -- what the charts say


def memory_finding(load: LoadFold, words: Words) -> str:
    """How much memory was in use, against what there is where that is known."""
    peak, total = words.bytes(load.peak), words.bytes(load.total)
    if load.peak is None:
        return words._("How much memory was in use is not known")
    if not load.total:
        return words._("At most %(peak)s of memory were in use", peak=peak)
    if load.peak / load.total >= NEARLY_FULL:
        return words._("Memory ran full or nearly so: %(peak)s of %(total)s in use", peak=peak, total=total)
    share = words.percent(load.peak / load.total)
    return words._(
        "At most %(peak)s of %(total)s of memory (%(share)s) were in use", peak=peak, total=total, share=share
    )


def pressure_finding(load: LoadFold, words: Words) -> str:
    """How often the system called memory short."""
    told = sum(load.pressures.values())
    critical, short = load.pressures["critical"], load.pressures["critical"] + load.pressures["warn"]
    if critical == told:
        return words._("Memory was critically short throughout")
    if critical:
        of = words.number(told)
        return words._("Memory was critically short at %(n)s of %(of)s measurements", n=words.number(critical), of=of)
    if short == told:
        return words._("Memory was getting short throughout")
    if short:
        of = words.number(told)
        return words._("Memory was getting short at %(n)s of %(of)s measurements", n=words.number(short), of=of)
    return words._("The system never called memory short")


def throttle_finding(load: LoadFold, words: Words) -> str:
    """How often the machine slowed itself down."""
    if not load.throttled:
        return words._("The machine never slowed itself down")
    if load.throttled == load.throttle_known:
        return words._("The machine was slowed down throughout, by heat or power")
    of = words.number(load.throttle_known)
    return words._(
        "The machine slowed itself down at %(n)s of %(of)s measurements", n=words.number(load.throttled), of=of
    )


def _unknown(load: LoadFold, words: Words) -> list[str]:
    """What this machine does not tell."""
    silent = []
    if not sum(load.pressures.values()):
        silent.append(words._("Nothing told whether memory was short."))
    if not load.throttle_known:
        silent.append(words._("Nothing told whether the machine was slowed down by heat or power."))
    return silent


# -- how they are drawn


class _Axis:
    """Time from left to right."""

    def __init__(self, load: LoadFold) -> None:
        self.first = load.first_ts or 0.0
        self.last = load.last_ts or 0.0
        self.length = self.last - self.first
        self.width_s = load.width_s

    def x(self, ts: float) -> float:
        return round(WIDTH * (ts - self.first) / self.length, 1) if self.length > 0 else 0.0


def _memory(load: LoadFold, words: Words) -> dict[str, Any] | None:
    """A line over time, against all the memory there is; None where no moment is known."""
    spans = [span for span in load.spans if span.ram_used is not None]
    most = max(load.total or 0.0, max((span.ram_used or 0.0 for span in spans), default=0.0))
    if not spans or not most:
        return None
    axis = _Axis(load)

    def y(used: float) -> float:
        return round(TOP + HEIGHT * (1 - used / most), 1)

    points = [(axis.x(span.start), y(span.ram_used or 0.0)) for span in spans]
    peak = min(points, key=lambda point: point[1])
    lines = [[points[i] for i in part] for part in _parts(spans, axis.width_s)]
    return {
        "width": int(WIDTH),
        "height": int(TOP + HEIGHT + 22),
        "top": TOP,
        "bottom": TOP + HEIGHT,
        "lines": [" ".join(f"{x},{y}" for x, y in line) for line in lines if len(line) > 1],
        "areas": [_area(line) for line in lines if len(line) > 1],
        "dots": [line[0] for line in lines if len(line) == 1],
        "peak": peak,
        "limit": None if load.total is None else words._("%(size)s in all", size=words.bytes(load.total)),
        "start": words.moment(axis.first),
        "end": words.moment(axis.last) if axis.length > 0 else None,
        "description": words._(
            "In use: %(first)s at first, %(most)s at most, %(last)s in the end",
            first=words.bytes(spans[0].ram_used),
            most=words.bytes(max(span.ram_used or 0.0 for span in spans)),
            last=words.bytes(spans[-1].ram_used),
        ),
    }


def _parts(spans: Sequence[Span], width_s: float) -> list[list[int]]:
    """Indices of spans that follow each other without an interruption."""
    parts: list[list[int]] = []
    for i, span in enumerate(spans):
        if not parts or span.start - spans[i - 1].start > max(GAP_WIDTHS * width_s, GAP_S):
            parts.append([])
        parts[-1].append(i)
    return parts


def _area(line: Sequence[tuple[float, float]]) -> str:
    foot = TOP + HEIGHT
    return " ".join(f"{x},{y}" for x, y in [(line[0][0], foot), *line, (line[-1][0], foot)])


def _pressure(load: LoadFold, words: Words) -> dict[str, Any] | None:
    """How short memory was: the higher, the shorter."""
    if not sum(load.pressures.values()):
        return None
    return {
        "id": "pressure",
        "title": pressure_finding(load, words),
        "sub": words._("A thin line: normal. Half the height: getting short. Full height: critically short."),
        "label": words._("Memory pressure over time"),
        **_band(load, lambda span: None if span.pressure is None else PRESSURES.index(span.pressure) / 2),
    }


def _throttling(load: LoadFold, words: Words) -> dict[str, Any] | None:
    """When the machine slowed itself down."""
    if not load.throttle_known:
        return None
    return {
        "id": "throttle",
        "title": throttle_finding(load, words),
        "sub": words._("A thin line: full speed. Full height: slowed down."),
        "label": words._("Throttling over time"),
        **_band(load, lambda span: None if span.throttled is None else float(span.throttled)),
    }


def _band(load: LoadFold, level: Callable[[Span], float | None]) -> dict[str, Any]:
    """Levels 0..1 over time as rectangles; neighbours of one level are one of them."""
    axis, spans = _Axis(load), load.spans
    reach = max(GAP_WIDTHS * axis.width_s, GAP_S)
    runs: list[tuple[float, float, float]] = []
    """(level, left, right)"""
    for i, span in enumerate(spans):
        value = level(span)
        if value is None:
            continue
        following = spans[i + 1].start if i + 1 < len(spans) else axis.last
        end = following if following - span.start <= reach else span.start + axis.width_s
        left, right = axis.x(span.start), axis.x(end)
        if runs and runs[-1][0] == value and runs[-1][2] == left:
            left = runs.pop()[1]
        runs.append((value, left, right))
    return {"width": int(WIDTH), "height": int(BAND), "bars": [_bar(*run, axis) for run in runs]}


def _bar(value: float, left: float, right: float, axis: _Axis) -> dict[str, float]:
    # A moment alone must still be seen, and within the chart.
    width = max(round(right - left, 1), 2.0) if axis.length > 0 else WIDTH
    height = max(2.0, round(BAND * value, 1))
    return {"x": min(left, WIDTH - width), "y": BAND - height, "width": width, "height": height}
