"""The eval monitor: the load of the machine as charts, true for one measurement, none and a night of them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Line, answer, append, bundle
from tests.pages import Html
from touchstone.build import build as write_site
from touchstone.i18n import Words
from touchstone.load import LoadFold, Resources
from touchstone.options import Options
from touchstone.pages.load import BAND, HEIGHT, TOP, WIDTH, panel

WORDS = Words("en")
GB = 1e9


def load_of(*lines: Resources) -> LoadFold:
    load = LoadFold()
    for line in lines:
        load.add(line)
    return load


def told(load: LoadFold) -> dict[str, Any]:
    shown = panel(load, WORDS)
    assert shown is not None
    return shown


def line(ts: float, used: float = 6 * GB, **fields: Any) -> Resources:
    return Resources(ts=ts, ram_used_bytes=used, ram_available_bytes=16 * GB - used, **fields)


def test_nothing_recorded_is_no_panel() -> None:
    assert panel(LoadFold(), WORDS) is None


def test_one_measurement() -> None:
    shown = told(load_of(line(1e9, pressure="warn", throttled=False)))
    assert shown["title"] == "At most 6.0\u00a0GB of 16.0\u00a0GB of memory (38%) were in use"
    assert shown["sub"] == "Measured once."
    assert (shown["memory"]["lines"], shown["memory"]["dots"]) == ([], [(0.0, shown["memory"]["peak"][1])])
    assert shown["memory"]["end"] is None
    pressure, throttling = shown["bands"]
    assert pressure["title"] == "Memory was getting short throughout"
    assert throttling["title"] == "The machine never slowed itself down"
    assert [bar["width"] for bar in (*pressure["bars"], *throttling["bars"])] == [WIDTH, WIDTH]
    assert shown["unknown"] == []


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([Resources(ts=1.0)], "How much memory was in use is not known"),
        ([Resources(ram_used_bytes=5 * GB)], "At most 5.0\u00a0GB of memory were in use"),
        ([line(1.0), line(2.0, 15.5 * GB)], "Memory ran full or nearly so: 15.5\u00a0GB of 16.0\u00a0GB in use"),
        ([Resources(ts=1.0, ram_used_bytes=0.0, ram_available_bytes=0.0)], "At most 0\u00a0B of memory were in use"),
    ],
    ids=["unknown", "no total", "full", "none at all"],
)
def test_what_is_said_of_memory(lines: list[Resources], says: str) -> None:
    shown = told(load_of(*lines))
    assert shown["title"] == says
    assert len(shown["unknown"]) == 2 and shown["bands"] == []


@pytest.mark.parametrize(
    ("pressures", "says"),
    [
        (["normal"], "The system never called memory short"),
        (["critical", "critical"], "Memory was critically short throughout"),
        (["normal", "critical", "warn"], "Memory was critically short at 1 of 3 measurements"),
        (["normal", "warn", "warn", None], "Memory was getting short at 2 of 3 measurements"),
    ],
    ids=["never", "throughout", "the worst counts", "the unknown does not"],
)
def test_what_is_said_of_pressure(pressures: list[Any], says: str) -> None:
    shown = told(load_of(*(line(float(n), pressure=pressure) for n, pressure in enumerate(pressures))))
    assert shown["bands"][0]["title"] == says


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ([False, False], "The machine never slowed itself down"),
        ([True, True, None], "The machine was slowed down throughout, by heat or power"),
        ([True, False, False], "The machine slowed itself down at 1 of 3 measurements"),
    ],
    ids=["never", "throughout", "once"],
)
def test_what_is_said_of_throttling(states: list[bool | None], says: str) -> None:
    shown = told(load_of(*(line(float(n), throttled=state) for n, state in enumerate(states))))
    assert shown["bands"][-1]["title"] == says


def test_no_line_is_drawn_across_an_interruption() -> None:
    shown = told(load_of(*(line(1e9 + n, pressure="normal") for n in (*range(60), *range(5000, 5060)))))
    assert len(shown["memory"]["lines"]) + len(shown["memory"]["dots"]) == 2
    assert len(shown["bands"][0]["bars"]) == 2


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?[\d.]+", text)]


@settings(max_examples=100)
@given(
    st.lists(
        st.builds(
            Resources,
            ts=st.none() | st.floats(-1e11, 1e12) | st.floats(1e9, 1e9 + 300),
            ram_used_bytes=st.none() | st.floats(0, 1e18),
            ram_available_bytes=st.none() | st.floats(0, 1e18),
            pressure=st.sampled_from([None, "normal", "warn", "critical"]),
            throttled=st.sampled_from([None, False, True]),
        ),
        min_size=1,
        max_size=200,
    )
)
def test_everything_lies_within_its_chart(lines: list[Resources]) -> None:
    shown = told(load_of(*lines))
    if shown["memory"]:
        memory = shown["memory"]
        points = [numbers(text) for text in (*memory["lines"], *memory["areas"])] + [
            list(dot) for dot in memory["dots"]
        ]
        for flat in points:
            assert all(0 <= x <= WIDTH for x in flat[::2]) and all(TOP <= y <= TOP + HEIGHT for y in flat[1::2])
    for band in shown["bands"]:
        for bar in band["bars"]:
            assert bar["x"] >= 0 and bar["x"] + bar["width"] <= WIDTH + 0.2 and bar["width"] > 0
            assert bar["y"] >= 0 and bar["y"] + bar["height"] == pytest.approx(BAND)


def test_the_page_of_a_night(tmp_path: Path) -> None:
    night: list[Line] = [
        {
            "ts": 1e9 + n,
            "ram_used_bytes": int(8 * GB + 3 * GB * math.sin(n / 500)),
            "ram_available_bytes": int(8 * GB - 3 * GB * math.sin(n / 500)),
            "pressure": "critical" if 4000 <= n < 5000 else "normal",
            "throttled": n > 9000,
            "gpus": [],
        }
        for n in range(10_000)
    ]
    folder = bundle(tmp_path / "runs" / "r", answers=[answer("p1"), answer("p2")])
    append(folder / "resources.jsonl", *night, b"broken\n")
    write_site(Options(runs=tmp_path / "runs", out=tmp_path / "public", state_home=tmp_path))
    page = Html(tmp_path / "public" / "runs" / "r" / "eval" / "index.html")
    assert "Memory was critically short at 1,000 of 10,000 measurements" in page.text
    assert "At most 11.0 GB of 16.0 GB of memory (69%) were in use" in page.text
    assert page.source.count("<polyline") == 1 and "style=" not in page.source
    assert len(page.source) < 30_000


def test_a_run_that_goes_on_says_how_long_the_rest_takes(tmp_path: Path) -> None:
    told = [{"event": "answer", **answer(p), "ts": ts} for p, ts in (("p1", 10.0), ("p2", 14.0))]
    folder = bundle(
        tmp_path / "runs" / "r",
        answers=[answer("p0", ts=1.0), answer("p1", ts=10.0), answer("p2", ts=14.0)],
        events=[{"event": "eval_start", "ts": 9.0, "total": 10}, *told],
    )
    options = Options(runs=tmp_path / "runs", out=tmp_path / "public", state_home=tmp_path)
    write_site(options)
    path = tmp_path / "public" / "runs" / "r" / "eval" / "index.html"
    assert "3 of 10 answers are in." in Html(path).text
    assert "At this pace the rest takes about 28 seconds." in Html(path).text  # seven are left, four seconds each
    append(folder / "events.jsonl", {"event": "eval_done", "ts": 15.0, "total": 10, "answered": 3})
    write_site(options)
    assert "The run stopped early" in Html(path).text and "At this pace" not in Html(path).text


def test_a_new_measurement_renews_the_page(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "runs" / "r", answers=[answer("p1")])
    options = Options(runs=tmp_path / "runs", out=tmp_path / "public", state_home=tmp_path)
    path = tmp_path / "public" / "runs" / "r" / "eval" / "index.html"
    for ts, used in ((1e9, 2e9), (1e9 + 1, 3e9)):
        append(folder / "resources.jsonl", {"ts": ts, "ram_used_bytes": used, "ram_available_bytes": 1e10 - used})
        write_site(options)
        assert f"At most {used / 1e9:.1f} GB of 10.0 GB of memory" in Html(path).text
