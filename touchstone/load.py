"""The machine's load during a run: the lines of resources.jsonl, and what they add up to. Pure.

However many lines there are, only `BUCKETS` spans of time are kept; what they hold does not depend on the order of
the lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from touchstone.contracts.base import Logged, Measure, Timestamp
from touchstone.jsonsource import parse_model

BUCKETS: Final = 128
"""More points than that cannot be told apart in a chart."""

Pressure = Literal["normal", "warn", "critical"]
PRESSURES: Final[tuple[Pressure, ...]] = ("normal", "warn", "critical")
"""From harmless to worst."""

Percent = Annotated[float, Field(ge=0, le=1e6)]


class Card(Logged):
    """A graphics card at one moment."""

    name: str | None = None
    utilization_percent: Percent | None = None
    memory_used_bytes: Measure | None = None
    memory_total_bytes: Measure | None = None
    temperature_c: Annotated[float, Field(ge=-300, le=1e4)] | None = None
    power_w: Measure | None = None
    throttled: bool | None = None


class Resources(Logged):
    """A line of resources.jsonl: the machine's load at one moment."""

    ts: Timestamp | None = None
    ram_used_bytes: Measure | None = None
    ram_available_bytes: Measure | None = None
    swap_out_bytes_per_s: Measure | None = None
    cpu_percent: Percent | None = None
    pressure: Pressure | None = None
    throttled: bool | None = None
    gpus: Annotated[tuple[Card, ...], Field(strict=False, max_length=1000)] | None = None
    """None where nothing tells; empty where the machine has no card."""


def read_resources(data: bytes) -> Resources:
    """One line; raises jsonsource.Refused with the reason."""
    return parse_model(Resources, data)


@dataclass(frozen=True, slots=True)
class Span:
    """What was seen within one stretch of time, `Load.width_s` seconds long. None where nothing told."""

    start: float
    """Seconds since the epoch."""
    ram_used: float | None
    """The most, bytes."""
    pressure: Pressure | None
    """The worst."""
    throttled: bool | None
    """Whether ever."""

    def joined(self, other: Span) -> Span:
        """Both as one stretch, which begins where the earlier one does."""
        return Span(
            min(self.start, other.start),
            _most(self.ram_used, other.ram_used),
            _worse(self.pressure, other.pressure),
            self.throttled if other.throttled is None else other.throttled or bool(self.throttled),
        )


def _most(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else max(one, other)


def _worse(one: Pressure | None, other: Pressure | None) -> Pressure | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other, key=PRESSURES.index)


class LoadFold:
    """Adds lines of resources.jsonl up."""

    def __init__(self) -> None:
        self.samples = 0
        self.first_ts: float | None = None
        self.last_ts: float | None = None
        self.peak: float | None = None
        """The most memory used, bytes."""
        self.least_available: float | None = None
        self.total: float | None = None
        """Memory of the machine, used and available, bytes; the most if lines differ."""
        self.swap_out: float | None = None
        """The most that was swapped out within a second, bytes."""
        self.pressures: dict[Pressure, int] = dict.fromkeys(PRESSURES, 0)
        """Samples that told of each."""
        self.throttled = 0
        """Samples that told of throttling."""
        self.throttle_known = 0
        """Samples that told whether there was any."""
        self._spans: dict[int, Span] = {}
        """Number of the stretch (its start divided by the width) to what was seen in it."""
        self._width = 1.0

    def add(self, line: Resources) -> None:
        """One line, in any order."""
        used, available = line.ram_used_bytes, line.ram_available_bytes
        self.samples += 1
        self.peak = _most(self.peak, used)
        if available is not None:
            least = self.least_available
            self.least_available = available if least is None else min(least, available)
            self.total = self.total if used is None else _most(self.total, used + available)
        self.swap_out = _most(self.swap_out, line.swap_out_bytes_per_s)
        if line.pressure is not None:
            self.pressures[line.pressure] += 1
        if line.throttled is not None:
            self.throttle_known += 1
            self.throttled += line.throttled
        if line.ts is not None:
            self.first_ts = line.ts if self.first_ts is None else min(self.first_ts, line.ts)
            self.last_ts = _most(self.last_ts, line.ts)
            self._place(Span(line.ts, used, line.pressure, line.throttled))

    def _place(self, span: Span) -> None:
        self._put(span)
        while max(self._spans) - min(self._spans) >= BUCKETS:
            spans, self._spans = self._spans, {}
            self._width *= 2
            for wide in spans.values():
                self._put(wide)

    def _put(self, span: Span) -> None:
        number = math.floor(span.start / self._width)
        there = self._spans.get(number)
        self._spans[number] = span if there is None else there.joined(span)

    @property
    def width_s(self) -> float:
        """Seconds that a span stands for."""
        return self._width

    @property
    def spans(self) -> list[Span]:
        """At most `BUCKETS` stretches in which something was seen, by time."""
        return [self._spans[number] for number in sorted(self._spans)]

    @property
    def figures(self) -> tuple[object, ...]:
        """All of it; equal figures show alike."""
        counts = (self.samples, *self.pressures.values(), self.throttled, self.throttle_known)
        ends = (self.first_ts, self.last_ts, self.peak, self.least_available, self.total, self.swap_out)
        return counts, ends, tuple(self.spans)
