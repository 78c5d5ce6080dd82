"""What the lines of resources.jsonl add up to."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone.jsonsource import Refused
from touchstone.load import BUCKETS, LoadFold, Resources, Span, read_resources


def fold(lines: list[Resources]) -> LoadFold:
    load = LoadFold()
    for line in lines:
        load.add(line)
    return load


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, None),
        ({"pressure": "warn", "throttled": False, "cpu_percent": 0.0, "gpus": [{"name": "x", "new": 1}]}, None),
        ({"gpus": None}, None),
        ({"ram_used_bytes": -1}, "ram_used_bytes"),
        ({"ram_used_bytes": math.nan}, "NaN|finite|JSON"),
        ({"pressure": "high"}, "pressure"),
        ({"throttled": "no"}, "throttled"),
        ({"gpus": {}}, "gpus"),
    ],
    ids=["nothing known", "all known", "no card known", "negative", "no number", "another word", "text", "no list"],
)
def test_a_line(fields: dict[str, Any], says: str | None) -> None:
    data = json.dumps({"ts": 1, **fields}).encode()
    if says is None:
        assert read_resources(data).ts == 1.0
    else:
        with pytest.raises(Refused, match=says):
            read_resources(data)


def test_nothing_adds_up_to_nothing_known() -> None:
    load = fold([])
    assert (load.samples, load.peak, load.least_available, load.total, load.swap_out) == (0, None, None, None, None)
    assert (load.first_ts, load.last_ts, load.spans, load.throttle_known) == (None, None, [], 0)


def test_what_it_adds_up_to() -> None:
    load = fold(
        [
            Resources(ts=100.2, ram_used_bytes=5.0, ram_available_bytes=11.0, pressure="normal", throttled=False),
            Resources(ts=100.9, ram_used_bytes=7.0, ram_available_bytes=9.0, pressure="critical"),
            Resources(ts=103.0, swap_out_bytes_per_s=4.0, pressure="warn", throttled=True),
            Resources(ram_used_bytes=9.0),
        ]
    )
    assert (load.samples, load.peak, load.least_available, load.total, load.swap_out) == (4, 9.0, 9.0, 16.0, 4.0)
    assert (load.first_ts, load.last_ts) == (100.2, 103.0)
    assert load.pressures == {"normal": 1, "warn": 1, "critical": 1}
    assert (load.throttled, load.throttle_known) == (1, 2)
    assert load.spans == [Span(100.2, 7.0, "critical", False), Span(103.0, None, "warn", True)]


LINES = st.builds(
    Resources,
    ts=st.none() | st.floats(-1e11, 1e12) | st.floats(1e9, 1e9 + 500),
    ram_used_bytes=st.none() | st.floats(0, 1e18),
    ram_available_bytes=st.none() | st.floats(0, 1e18),
    pressure=st.sampled_from([None, "normal", "warn", "critical"]),
    throttled=st.sampled_from([None, False, True]),
)


@settings(max_examples=200)
@given(st.lists(LINES, max_size=300), st.randoms(use_true_random=False))
def test_the_order_does_not_matter_and_little_is_kept(lines: list[Resources], random: Any) -> None:
    load = fold(lines)
    shuffled = list(lines)
    random.shuffle(shuffled)
    other = fold(shuffled)
    assert load.spans == other.spans and load.width_s == other.width_s
    assert (load.peak, load.total, load.pressures) == (other.peak, other.total, other.pressures)

    assert len(load.spans) <= BUCKETS
    placed = [line for line in lines if line.ts is not None]
    assert {span.start for span in load.spans} <= {line.ts for line in placed}
    starts = [span.start for span in load.spans]
    assert starts == sorted(starts)
    used = [line.ram_used_bytes for line in placed if line.ram_used_bytes is not None]
    assert max((span.ram_used for span in load.spans if span.ram_used is not None), default=None) == max(
        used, default=None
    )
    for wanted in ("critical", True):
        told = any(line.pressure == wanted or line.throttled is wanted for line in placed)
        assert told == any(span.pressure == wanted or span.throttled is wanted for span in load.spans)


def test_a_night_of_samples() -> None:
    load = fold([Resources(ts=1e9 + i, ram_used_bytes=float(i % 100)) for i in range(30_000)])
    assert load.samples == 30_000 and BUCKETS // 2 <= len(load.spans) <= BUCKETS
    assert {span.ram_used for span in load.spans} <= {float(n) for n in range(100)}
