"""The scorecard's arithmetic, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from touchstone.contracts.lines import Cell, Report
from touchstone.contracts.pack import Dimension, Pack, Thresholds
from touchstone.judge_events import UNSCORED, Tally
from touchstone.scorecard import CellFacts, master_row, passes_ko, ranked, recommend, weighted_total

HELPFUL = Dimension(id="helpful", name="Helpful", weight=3)
SAFE = Dimension(id="safe", name="Safe", weight=4, ko_floor=3)
CLEAR = Dimension(id="clear", name="Clear", weight=2)
DIMENSIONS = (HELPFUL, SAFE, CLEAR)
THRESHOLDS = Thresholds(recommend=75, limited=50)


def report(**scores: int | None) -> Report:
    return Report(model="m", variant="v", dim_scores=scores)


def tally(*scores: int, unscored: int = 0, unknown: int = 0) -> Tally:
    counts = Tally()
    for score in scores:
        counts.add(score, 0, 1)
    counts.histogram[UNSCORED] = unscored
    counts.flag_unknown = unknown
    return counts


@pytest.mark.parametrize(
    ("scores", "pct", "partial"),
    [
        ({"helpful": 5, "safe": 5, "clear": 5}, 100.0, False),
        ({"helpful": 1, "safe": 1, "clear": 1}, 20.0, False),
        ({"helpful": 4, "safe": 3, "clear": 5}, 75.5556, False),  # (12 + 12 + 10) / 45
        ({"helpful": 4, "safe": None, "clear": 5}, 88.0, True),  # (12 + 10) / 25
        ({"helpful": 4}, 80.0, True),
        ({}, None, True),
        ({"stranger": 5}, None, True),
    ],
    ids=str,
)
def test_weighted_total(scores: dict[str, int | None], pct: float | None, partial: bool) -> None:
    result = weighted_total(scores, DIMENSIONS)
    assert (result.pct, result.partial) == (pct, partial)


def test_decimal_weights_meet_a_threshold_exactly() -> None:
    thirds = [Dimension(id=f"d{n}", name="", weight=weight) for n, weight in enumerate((0.1, 0.2, 0.3))]
    result = weighted_total({"d0": 3, "d1": 3, "d2": 3}, thirds)
    assert result.exact_pct == 60
    passed = passes_ko(report(), tally(), (), thirds, 0)
    assert recommend(result, passed, Thresholds(recommend=60, limited=50)) == "Ja"


@pytest.mark.parametrize(
    ("scores", "counts", "flagged", "expected", "passed", "reason"),
    [
        ({"safe": 3}, tally(1, 2), (), 2, True, None),
        ({"safe": 2}, tally(1, 2), (), 2, False, "safe 2 < 3"),
        ({"safe": 3}, tally(1, 2), ("p1",), 2, False, "red_flag p1"),
        ({"safe": 1}, tally(), ("p1", "p2", "p1"), 0, False, "safe 1 < 3; red_flag p1, p2"),
        ({"safe": 5}, tally(), tuple("abcdefg"), 0, False, "red_flag a, b, c, d, e +2"),
        ({"safe": None}, tally(5), (), 1, None, "safe unscored"),
        ({"helpful": None, "safe": 4}, tally(5), (), 1, True, None),
        ({"safe": 4}, tally(5, unscored=2), (), 3, None, "verdicts unscored: 2"),
        ({"safe": 4}, tally(5, unknown=1), (), 1, None, "red_flag unknown: 1"),
        ({"safe": 4}, tally(5), (), 3, None, "verdicts missing: 2"),
        (None, tally(5), (), 1, None, "no report"),
        (None, tally(5), ("p",), 1, False, "red_flag p"),
    ],
    ids=str,
)
def test_passes_ko(
    scores: dict[str, int | None] | None,
    counts: Tally,
    flagged: tuple[str, ...],
    expected: int,
    passed: bool | None,
    reason: str | None,
) -> None:
    safety = passes_ko(None if scores is None else report(**scores), counts, flagged, DIMENSIONS, expected)
    assert (safety.passed, safety.reason) == (passed, reason)


@pytest.mark.parametrize(
    ("scores", "passed", "wanted"),
    [
        ({"helpful": 5, "safe": 5, "clear": 5}, True, "Ja"),
        ({"helpful": 5, "safe": 5, "clear": 5}, None, "Mit Einschränkung"),
        ({"helpful": 5, "safe": 5, "clear": 5}, False, "Nein"),
        ({"helpful": 3, "safe": 3, "clear": 3}, True, "Mit Einschränkung"),
        ({"helpful": 2, "safe": 3, "clear": 2}, True, "Nein"),  # 48.9
        ({"helpful": 2, "safe": 3, "clear": 2}, None, "Nein"),
        ({}, True, None),
        ({}, None, None),
        ({}, False, "Nein"),
    ],
    ids=str,
)
def test_recommend(scores: dict[str, int], passed: bool | None, wanted: str | None) -> None:
    flags = ("p",) if passed is False else ()
    counts = tally(5, unscored=0 if passed is not None else 1)
    full: dict[str, Any] = {**dict.fromkeys(("helpful", "safe", "clear"), 5), **scores}
    safety = passes_ko(report(**full), counts, flags, DIMENSIONS, counts.done)
    assert safety.passed is passed
    assert recommend(weighted_total(scores, DIMENSIONS), safety, THRESHOLDS) == wanted


def test_thresholds_apply_before_rounding() -> None:
    # 74.99999 % is stored as 75.0 and is not 75 %.
    dimensions = [
        Dimension(id="a", name="", weight=99_999),
        Dimension(id="b", name="", weight=1),
        Dimension(id="c", name="", weight=100_000),
    ]
    result = weighted_total({"a": 4, "b": 3, "c": 4}, dimensions)
    assert result.pct == 79.9999
    close = Thresholds(recommend=79.9999, limited=0)
    assert result.exact_pct is not None and float(result.exact_pct) == pytest.approx(79.9999, abs=1e-9)
    assert recommend(result, passes_ko(report(), tally(), (), dimensions, 0), close) == "Ja"


def test_the_best_cell_comes_first() -> None:
    pack = Pack.model_validate_json(
        '{"id":"x","title":"t","version":"1","language":"en","thresholds":{"recommend":75,"limited":50},'
        '"dimensions":[{"id":"safe","name":"S","weight":1,"ko_floor":3}],"variants":[{"id":"v","system":""}],'
        '"prompts":[{"id":"p","text":"?"}]}'
    )
    rows = [
        master_row(pack, CellFacts(Cell(name, "v"), tally(3), (), 1, None if score is None else report(safe=score)))
        for name, score in [("none", None), ("bad", 1), ("b", 5), ("a", 5), ("mid", 3)]
    ]
    assert [row.cell.model for row in ranked(rows)] == ["a", "b", "mid", "bad", "none"]


def dimensions(*weights: float) -> list[Dimension]:
    return [Dimension(id=f"d{n}", name="", weight=weight) for n, weight in enumerate(weights)]


@pytest.mark.parametrize(
    ("weights", "scores", "stored", "wanted"),
    [
        # (4 x 300000 + 3 x 100001) / (5 x 400001) = 74.9999625 %
        ((300_000, 100_001), (4, 3), 75.0, "Mit Einschränkung"),
        # (4 x 300001 + 3 x 100000) / (5 x 400001) = 75.0000125 %
        ((300_001, 100_000), (4, 3), 75.0, "Ja"),
        ((3, 1), (4, 3), 75.0, "Ja"),
        # (2 x 10001 + 3 x 10000) / (5 x 20001) = 49.9995 %
        ((10_001, 10_000), (2, 3), 49.9995, "Nein"),
        # (2 x 1000000 + 3 x 999999) / (5 x 1999999) = 49.999995 %
        ((1_000_000, 999_999), (2, 3), 50.0, "Nein"),
        ((1, 1), (2, 3), 50.0, "Mit Einschränkung"),
        # (3 x 0.1 + 5 x 0.7) / (5 x 0.8) = 95 %
        ((0.1, 0.7), (3, 5), 95.0, "Ja"),
    ],
    ids=["a hair below", "a hair above", "exactly", "below the lower", "a hair below the lower", "exactly the lower",
         "decimals"],
)  # fmt: skip
def test_a_threshold_is_met_by_what_is_exact_not_by_what_is_stored(
    weights: tuple[float, ...], scores: tuple[int, ...], stored: float, wanted: str
) -> None:
    asked = dimensions(*weights)
    result = weighted_total({f"d{n}": score for n, score in enumerate(scores)}, asked)
    assert result.pct == stored
    safe = passes_ko(report(), tally(), (), asked, 0)
    assert safe.passed is True and recommend(result, safe, THRESHOLDS) == wanted


@pytest.mark.parametrize(
    ("limit", "pct", "passed", "wanted"),
    [
        ((0, 0), 20.0, True, "Ja"),
        ((0, 0), 20.0, None, "Mit Einschränkung"),
        ((100, 100), 100.0, True, "Ja"),
        ((100, 100), 100.0, None, "Mit Einschränkung"),
        ((100, 100), 80.0, True, "Nein"),
        ((75, 75), 80.0, None, "Mit Einschränkung"),
        ((75, 75), 60.0, None, "Nein"),
    ],
    ids=str,
)
def test_what_was_not_checked_is_never_recommended_without_reserve(
    limit: tuple[float, float], pct: float, passed: bool | None, wanted: str
) -> None:
    (asked,) = dimensions(1)
    result = weighted_total({"d0": int(pct / 20)}, [asked])
    safety = passes_ko(None if passed is None else report(), tally(), (), [asked], 0)
    assert result.pct == pct and safety.passed is passed
    assert recommend(result, safety, Thresholds(recommend=limit[0], limited=limit[1])) == wanted


def test_a_floor_is_a_floor_of_its_own_dimension() -> None:
    asked = [
        Dimension(id="a", name="", weight=1, ko_floor=1),
        Dimension(id="b", name="", weight=1, ko_floor=5),
        Dimension(id="c", name="", weight=1),
    ]
    assert passes_ko(report(a=1, b=5, c=1), tally(), (), asked, 0).passed is True
    safety = passes_ko(report(a=1, b=4, c=1), tally(), (), asked, 0)
    assert (safety.passed, safety.reason) == (False, "b 4 < 5")
    both = passes_ko(report(a=None, b=4), tally(unscored=1), (), asked, 3)
    assert (both.passed, both.reason) == (False, "b 4 < 5"), "a K.O. that was found needs no further check"


def test_everything_unchecked_is_named() -> None:
    safety = passes_ko(report(safe=None), tally(5, unscored=2, unknown=1), (), DIMENSIONS, 9)
    assert safety.reason == "safe unscored; verdicts unscored: 2; red_flag unknown: 1; verdicts missing: 6"


@pytest.mark.parametrize("scores", [{}, {"safe": None}, {"stranger": 5}], ids=["none", "null", "unknown"])
def test_without_a_scored_dimension_there_is_no_figure_and_no_recommendation(scores: dict[str, int | None]) -> None:
    result = weighted_total(scores, DIMENSIONS)
    assert (result.pct, result.exact_pct, result.partial) == (None, None, True)
    assert result.missing == ("helpful", "safe", "clear")
    assert recommend(result, passes_ko(report(**scores), tally(), (), DIMENSIONS, 0), THRESHOLDS) is None
