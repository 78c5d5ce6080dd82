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


def told(n: int, score: int | None, at: float, **more: Any) -> VerdictEvent:
    return event(n, score, ts=at, **more)


@pytest.mark.parametrize(
    ("stream", "eta"),
    [
        ([], 0.0),
        ([JudgeStart(total=3)], None),
        ([JudgeStart(total=3), told(0, 3, 10.0)], None),
        ([JudgeStart(total=4), told(0, 3, 10.0), told(1, 3, 14.0)], 8.0),
        ([JudgeStart(total=4), told(0, 3, 10.0), told(1, None, 14.0)], 8.0),
        ([JudgeStart(total=9), told(0, 3, 10.0), told(1, 3, 11.0), told(2, 3, 16.0)], 18.0),
        ([JudgeStart(total=5), told(0, 3, 1.0, prior=True), told(1, 3, 2.0, prior=True)], None),
        ([JudgeStart(total=5), told(0, 3, 1.0, prior=True), told(1, 3, 100.0), told(2, 3, 103.0)], 6.0),
        ([JudgeStart(total=5), told(0, 3, 100.0), told(1, 3, 1.0, prior=True), told(2, 3, 103.0)], 6.0),
        ([JudgeStart(total=5), told(0, 3, 10.0), event(1, 3), told(2, 3, 13.0)], 6.0),
        ([JudgeStart(total=4), told(0, 3, 10.0), told(1, 3, 10.0)], 0.0),
        ([JudgeStart(total=4), told(0, 3, 10.0), told(1, 3, 9.0)], None),
        ([JudgeStart(total=2), told(0, 3, 10.0), told(1, 3, 14.0)], 0.0),
        ([JudgeStart(total=1), told(0, 3, 10.0), told(1, 3, 14.0)], 0.0),
        ([JudgeStart(total=4), told(0, 3, 1.0), told(1, 3, 3.0), JudgeDone(total=4, scored=2)], None),
        ([JudgeStart(total=2), told(0, 3, 1.0), told(1, 3, 3.0), JudgeDone(total=2, scored=2)], 0.0),
        ([JudgeStart(total=9), told(0, 3, 1.0), told(1, 3, 3.0), JudgeStart(total=4), told(2, 3, 50.0)], None),
        ([told(0, 3, 1.0), told(1, 3, 3.0)], 0.0),
    ],
    ids=["nothing", "started", "one gives no pace", "two do", "unscored ones count", "the mean of unequal gaps",
         "prior only", "prior before", "prior between", "one without a time", "all at once", "clock set back",
         "all there", "more than announced", "aborted", "ended", "a new start forgets the pace", "no start"],
)  # fmt: skip
def test_the_time_left_is_the_mean_gap_of_fresh_verdicts_times_those_left(
    stream: list[JudgeEvent], eta: float | None
) -> None:
    assert build_view(stream).eta_s == eta


@pytest.mark.timeout(60)
def test_a_log_of_nothing_but_starts_is_soon_read() -> None:
    fold = JudgeFold()
    for n in range(20_000):
        fold.add_judgement(Verdict(model="m", variant="v", prompt_id=f"p{n}", repeat=0, score=3), n)
    for n in range(50_000):
        fold.add(JudgeStart(total=1))
        fold.add(event(n % 20_000, 4))
    assert fold.done == 20_000 and fold.tally.histogram[3] == 20_000, "the full verdicts stand"


def test_a_new_start_takes_back_what_the_events_said_and_nothing_else() -> None:
    fold = JudgeFold()
    fold.add_judgement(Verdict(model="m", variant="v", prompt_id="p0", repeat=0, score=5, judge_model="full"), 0)
    for step in (JudgeStart(ts=1.0, total=4, judge_model="a"), event(0, 1), event(1, 2, flag=True), event(2, None),
                 Master(model="m", variant="v", pct=1.0), JudgeDone(ts=2.0, total=4, scored=3)):  # fmt: skip
        fold.add(step)
    assert (fold.done, fold.tally.red_flags, fold.tally.unscored, fold.judge_model) == (3, 1, 1, "a")
    fold.add(JudgeStart(ts=3.0, total=7, judge_model="b"))
    assert (fold.done, fold.tally.red_flags, fold.tally.unscored, fold.total) == (1, 0, 0, 7)
    assert fold.masters == {} and not fold.finished and fold.judge_model == "b" and fold.last_ts == 3.0
    assert fold.full_judge_model == "full" and fold.tally.mean == 5.0
    fold.add(event(2, 4))
    assert fold.done == 2 and fold.tally.histogram[1:6] == [0, 0, 0, 1, 1]


def test_events_after_the_end_still_fill_keys_and_count_beyond_the_total() -> None:
    view = build_view([JudgeStart(total=1), event(0, 3), JudgeDone(total=1, scored=1), event(7, 5)])
    assert (view.done, view.total, view.finished, view.aborted) == (2, 2, True, False)
    assert [verdict.prompt_id for verdict in view.verdicts] == ["p0", "p7"]


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_the_fold_is_the_union_of_both_channels(steps: list[Any]) -> None:
    fold = JudgeFold()
    full: dict[str, Any] = {}
    told: dict[str, Any] = {}
    announced = None
    for at, step in enumerate(steps):
        if isinstance(step, Verdict):
            fold.add_judgement(step, at)
            full[step.prompt_id] = step
        else:
            fold.add(step, at)
            if isinstance(step, JudgeStart):
                told, announced = {}, step.total
            elif isinstance(step, VerdictEvent):
                told[step.prompt_id] = step
    union = {**told, **full}
    scored = [one for one in union.values() if not one.unscored]
    scores = [one.score for one in scored]
    assert fold.done == len(union) and fold.total == max(announced or 0, len(union))
    assert fold.tally.histogram[1:6] == [scores.count(score) for score in range(1, 6)]
    assert fold.tally.unscored == len(union) - len(scored)
    assert fold.tally.red_flags == sum(bool(one.red_flag) for one in scored)
    assert fold.tally.mean == (pytest.approx(sum(scores) / len(scores)) if scores else None)


@settings(max_examples=100, deadline=None)
@given(STEPS.map(lambda steps: [step for step in steps if not isinstance(step, Verdict)]))
def test_a_stream_of_lines_is_the_stream_of_its_events_and_of_their_mappings(steps: list[JudgeEvent]) -> None:
    lines = [encode(step).decode() for step in steps]
    wanted = build_view(steps)
    assert build_view(parse_line(line) for line in lines) == wanted
    assert build_view(json.loads(line) for line in lines) == wanted
    broken = [text for line in lines for text in ("", line[: len(line) // 2], line, "\n", "{}", "[" * 5000)]
    assert build_view(parse_line(line) for line in broken) == wanted, "what is no event changes nothing"


@given(st.text(max_size=400))
def test_a_shortened_text_is_a_beginning_cut_on_a_word_where_there_is_one(text: str) -> None:
    flat, short = " ".join(text.split()), shorten(text)
    assert short is not None
    if len(flat) <= 160:
        assert short == flat
    else:
        assert short.endswith("…") and flat.startswith(short[:-1]) and len(short) > 80
        assert flat[len(short) - 1] == " " or " " not in flat[80 : len(short) - 1]
