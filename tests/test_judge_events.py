"""The judge view: events round-trip, the fold adds up, and folding the tail equals folding the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone.contracts.lines import Verdict
from touchstone.judge_events import (
    JudgeDone,
    JudgeEvent,
    JudgeFold,
    JudgeStart,
    Master,
    Tally,
    VerdictEvent,
    build_view,
    parse_line,
    shorten,
    verdict_event,
)
from touchstone.keys import KeyIndex
from touchstone.store.write import encode


def event(
    n: int, score: int | None = 3, *, ts: float | None = None, prior: bool = False, flag: bool | None = False
) -> VerdictEvent:
    return VerdictEvent(
        model="m", variant="v", prompt_id=f"p{n}", repeat=0, score=score or 0, unscored=score is None,
        red_flag=flag, ts=ts, prior=prior, i=n, rationale="r",
    )  # fmt: skip


def test_the_contract_of_an_empty_stream() -> None:
    view = build_view([])
    assert (view.total, view.done, view.eta_s, view.mean_score, view.finished) == (0, 0, 0.0, None, False)
    assert view.histogram == {1: 0, 2: 0, 3: 0, 4: 0, 5: 0} and view.verdicts == [] and view.masters == []


def test_counts_mean_and_flags_are_of_scored_verdicts_only() -> None:
    stream: list[JudgeEvent] = [
        JudgeStart(ts=0, total=6, judge_model="j"),
        event(0, 5), event(1, 2, flag=True), event(2, None, flag=True), event(3, None, flag=None), event(4, 5),
    ]  # fmt: skip
    view = build_view(stream)
    assert view.histogram == {1: 0, 2: 1, 3: 0, 4: 0, 5: 2} and view.mean_score == 4.0
    assert (view.red_flags, view.unscored, view.done, view.total, view.judge_model) == (1, 2, 5, 6, "j")


def test_the_last_verdict_on_a_key_wins_and_counts_once() -> None:
    view = build_view([event(0, 1, flag=True), event(1, 2), event(0, 5)])
    assert view.done == 2 and view.histogram[1] == 0 and view.histogram[5] == 1 and view.red_flags == 0
    assert [v.score for v in view.verdicts] == [5, 2]


def test_the_pace_is_that_of_fresh_verdicts() -> None:
    prior = [event(n, ts=1.0 + n / 1000, prior=True) for n in range(4)]
    fresh = [event(4 + n, ts=100.0 + 10 * n) for n in range(3)]
    view = build_view([JudgeStart(ts=0, total=10), *prior, *fresh])
    assert view.eta_s == pytest.approx(10.0 * 3)
    assert build_view([JudgeStart(ts=0, total=10), *prior, fresh[0]]).eta_s is None
    assert build_view([JudgeStart(ts=0, total=10), event(0, ts=10.0), event(1, ts=5.0)]).eta_s is None
    assert build_view([JudgeStart(ts=0, total=3), *fresh]).eta_s == 0.0


def test_nothing_is_left_when_all_are_there_and_an_ended_run_has_no_eta() -> None:
    stream: list[JudgeEvent] = [JudgeStart(ts=0, total=2), event(0, ts=1.0), event(1, ts=2.0)]
    assert build_view(stream).eta_s == 0.0
    aborted = build_view(
        [JudgeStart(ts=0, total=9), event(0, ts=1.0), event(1, ts=2.0), JudgeDone(ts=3, total=9, scored=2)]
    )
    assert aborted.eta_s is None and aborted.finished and aborted.aborted
    assert not build_view([*stream, JudgeDone(ts=3, total=2, scored=2)]).aborted


def test_a_start_begins_anew_and_the_total_is_never_below_what_is_done() -> None:
    view = build_view([JudgeStart(ts=0, total=5), event(0), event(1), JudgeStart(ts=9, total=1), event(2), event(3)])
    assert view.done == 2 and view.total == 2 and [v.prompt_id for v in view.verdicts] == ["p2", "p3"]


def test_masters_by_cell_the_last_wins() -> None:
    masters = [Master(model="m", variant="v", pct=pct, recommendation="Ja") for pct in (1.0, 2.0)]
    assert [master.pct for master in build_view(masters).masters] == [2.0]


def test_plain_mappings_and_broken_lines_are_taken_as_they_come() -> None:
    stream = [parse_line(text) for text in ("", "  ", "{", '{"event": "verdict"}', '{"event": "what"}', "nonsense")]
    assert stream == [None] * 6
    assert build_view([*stream, {"event": "judge_start", "total": 3}, {"event": "?"}]).total == 3
    assert json.dumps(build_view([event(0)]).as_dict())


@pytest.mark.parametrize(
    "one",
    [JudgeStart(ts=1.5, total=3, judge_model="j"), event(1, 4, ts=2.0), event(2, None),
     Master(ts=1, model="m", variant="v", pct=None, safety_passed=None, safety_reason="no report", recommendation=None),
     JudgeDone(ts=2, total=3, scored=2)],
    ids=lambda one: one.event,
)  # fmt: skip
def test_events_round_trip(one: JudgeEvent) -> None:
    assert parse_line(encode(one).decode()) == one


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (None, None), ("", ""), ("a  b\nc", "a b c"), ("x" * 160, "x" * 160), ("x" * 161, "x" * 159 + "…"),
        ("word " * 40, ("word " * 31).strip() + "…"),
    ],
)  # fmt: skip
def test_rationales_are_cut_on_a_word(text: str | None, short: str | None) -> None:
    assert shorten(text) == short


@given(st.text(max_size=500))
def test_shortened_text_is_short(text: str) -> None:
    short = shorten(text)
    assert short is not None and len(short) <= 160 and "\n" not in short


def test_full_verdicts_win_and_events_fill_the_keys_that_they_lack() -> None:
    fold = JudgeFold()
    fold.add(event(0, 1))
    fold.add(event(1, 2))
    fold.add_judgement(Verdict(model="m", variant="v", prompt_id="p0", repeat=0, score=5, unscored=False), 7)
    assert fold.tally.histogram[1:6] == [0, 1, 0, 0, 1] and fold.done == 2
    fold.add(JudgeStart(total=9))
    assert fold.tally.histogram[1:6] == [0, 0, 0, 0, 1] and fold.done == 1


def test_an_event_is_the_verdict_without_its_full_text() -> None:
    verdict = Verdict(model="m", variant="v", prompt_id="p", repeat=1, score=4, rationale="long " * 100, ts=3.0, i=9)
    short = verdict_event(verdict, prior=True)
    assert (short.score, short.repeat, short.ts, short.i, short.prior) == (4, 1, 3.0, 9, True)
    assert short.rationale is not None and len(short.rationale) <= 160


VERDICTS = st.builds(
    event, st.integers(0, 6), st.none() | st.integers(1, 5), ts=st.none() | st.floats(0, 1e6), prior=st.booleans(),
    flag=st.none() | st.booleans(),
)  # fmt: skip
FULL = VERDICTS.map(lambda e: Verdict(**e.model_dump(exclude={"event", "prior"})))
STEPS = st.lists(
    st.one_of(
        VERDICTS,
        FULL,
        st.builds(JudgeStart, ts=st.just(0.0), total=st.integers(0, 9)),
        st.builds(JudgeDone, ts=st.just(1.0), total=st.integers(0, 9)),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_running_counts_equal_a_recount(steps: list[Any]) -> None:
    fold = JudgeFold()
    for at, step in enumerate(steps):
        if isinstance(step, Verdict):
            fold.add_judgement(step, at)
        else:
            fold.add(step, at)
    tally = Tally()
    cells: dict[int, Tally] = {}
    for number in range(len(fold.keys)):
        seen = fold.seen(number)
        if seen is not None:
            tally.add(seen.mark, seen.flag, 1)
            cells.setdefault(fold.keys.cell_number(number), Tally()).add(seen.mark, seen.flag, 1)
    assert fold.tally == tally and {number: cell for number, cell in fold.cells.items() if cell.done} == cells


def test_keys_are_numbered_and_found_again() -> None:
    from touchstone.contracts.lines import Key

    keys = KeyIndex()
    some = [Key("m", "v", f"p{n % 7}", n) for n in range(50)] + [Key("x" * 500, "v", "p0", 999_999)]
    numbers = [keys.number(key) for key in some]
    assert [keys.key(number) for number in numbers] == some and [keys.number(key) for key in some] == numbers
    assert keys.answered(some[3], 5) == numbers[3] and keys.slot(numbers[3]) == 5 and keys.slot(numbers[0]) is None
    keys.answered(some[3], 9)
    assert keys.slot(numbers[3]) == 5 and keys.slots == 10 and list(keys.at_slots(0, 10)) == [numbers[3]]
    assert next(iter(keys.in_order())) == numbers[3] and sorted(keys.in_order()) == sorted(numbers)
