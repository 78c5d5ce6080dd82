"""The eval view: what answers and their events add up to, computed by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import answer, key
from touchstone.contracts.lines import Answer
from touchstone.events import (
    AnswerEvent,
    EvalDone,
    EvalEvent,
    EvalFold,
    EvalStart,
    answer_event,
    build_view,
    parse_line,
)
from touchstone.jsonsource import parse_model
from touchstone.statistics import median, quantile
from touchstone.store.write import encode


def one(prompt: str = "p1", **fields: Any) -> Answer:
    return parse_model(Answer, json.dumps({**answer(prompt), **fields}).encode())


def fold(*answers: Answer) -> EvalFold:
    result = EvalFold()
    for slot, line in enumerate(answers):
        result.add_answer(line, slot, slot * 100)
    return result


@pytest.mark.parametrize(
    ("values", "q", "wanted"),
    [
        ([], 0.5, None),
        ([7.0], 0.5, 7.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.5),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.5),
        ([1.0, 2.0, 3.0, 4.0], 0.95, 3.85),
        ([1.0, 2.0], 0.0, 1.0),
        ([1.0, 2.0], 1.0, 2.0),
        ([float("nan"), 5.0, float("inf")], 0.5, 5.0),
        ([float("nan")], 0.5, None),
    ],
    ids=[
        "none",
        "one",
        "between two",
        "in any order",
        "a tail",
        "the least",
        "the most",
        "unmeasured",
        "all unmeasured",
    ],
)
def test_quantiles(values: list[float], q: float, wanted: float | None) -> None:
    assert quantile(values, q) == (None if wanted is None else pytest.approx(wanted))
    if q == 0.5:
        assert median(values) == quantile(values, q)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_within_its_values(values: list[float], q: float) -> None:
    found = quantile(values, q)
    assert found is not None and min(values) - 1e-6 <= found <= max(values) + 1e-6


def test_speed_is_that_of_answers_and_failures_are_counted_apart() -> None:
    metrics = {"ttft_s": 0.5, "prompt_tps": 100.0, "gen_tps": 20.0, "load_s": 3.0}
    (speed,) = fold(
        one("p1", metrics={**metrics, "total_s": 1.0}),
        one("p2", metrics={"ttft_s": 1.5, "total_s": 3.0, "gen_tps": 40.0}, status="truncated"),
        one("p3", metrics={"total_s": 900.0, "gen_tps": 1.0}, status="error"),
        one("p4", status="empty", metrics=None),
    ).speeds()
    assert (speed.answers, speed.measured, speed.truncated, speed.empty, speed.errors) == (4, 2, 1, 1, 1)
    assert speed.latency_p50 == 2.0 and speed.latency_p95 == pytest.approx(2.9)
    assert speed.ttft_p50 == 1.0 and speed.ttft_p95 == pytest.approx(1.45)
    assert (speed.prompt_tps, speed.gen_tps, speed.load_s) == (100.0, 30.0, 3.0)


def test_nothing_measured_is_unknown() -> None:
    (speed,) = fold(one(metrics=None)).speeds()
    assert (speed.answers, speed.measured) == (1, 0)
    assert [speed.latency_p50, speed.ttft_p95, speed.prompt_tps, speed.gen_tps, speed.load_s] == [None] * 5
    assert fold().speeds() == []


def test_the_last_line_of_a_key_wins_and_keeps_the_place_of_the_first() -> None:
    added = fold(one("p1", status="error"), one("p2"), one("p1", metrics={"total_s": 2.0}))
    assert added.done == 2 and added.keys.slots == 3
    number = added.keys.number(one("p1").key)
    assert (added.status(number), added.latency(number), added.at(number)) == ("ok", 2.0, 200)
    assert added.keys.slot(number) == 0
    (speed,) = added.speeds()
    assert (speed.answers, speed.errors, speed.latency_p50) == (2, 0, 2.0)


def test_models_by_first_appearance_and_cells_with_their_answers() -> None:
    added = fold(one("p1", model="z"), one("p1", model="a"), one("p1", model="z", variant="w"), one("p2", model="z"))
    assert [(speed.model, speed.answers) for speed in added.speeds()] == [("z", 3), ("a", 1)]
    cells = {tuple(added.keys.cells[cell]): count for cell, count in added.answers_per_cell().items()}
    assert cells == {("z", "v"): 2, ("a", "v"): 1, ("z", "w"): 1}


def test_keys_that_only_a_verdict_names_have_no_answer() -> None:
    added = fold(one("p1", status=None))
    stray = added.keys.number(one("stray").key)
    assert (added.at(stray), added.status(stray), added.latency(stray)) == (None, None, None)
    assert added.at(0) == 0 and added.status(0) is None and added.done == 1


def test_what_the_prompts_are_about() -> None:
    added = fold(one("p1", category="plan"), one("p2", category=None), one("p1", category="calm"))
    assert added.categories == {"p1": "calm"}


@pytest.mark.parametrize(
    ("events", "total", "finished", "aborted"),
    [
        ([], 2, False, False),
        ([EvalStart(total=5)], 5, False, False),
        ([EvalStart(total=1)], 2, False, False),
        ([EvalStart(total=None)], 2, False, False),
        ([EvalStart(total=2), EvalDone(total=2, answered=2)], 2, True, False),
        ([EvalStart(total=5), EvalDone(total=5, answered=2)], 5, True, True),
        ([EvalStart(total=5), EvalDone(total=5, answered=2), EvalStart(total=5)], 5, False, False),
        ([EvalDone(total=9, answered=9)], 2, True, False),
    ],
    ids=["no events", "running", "more than announced", "not announced", "whole", "aborted", "resumed", "end alone"],
)
def test_how_far_a_run_is(events: list[EvalEvent], total: int, finished: bool, aborted: bool) -> None:
    added = fold(one("p1"), one("p2"))
    for event in events:
        added.add(event)
    assert (added.done, added.total, added.finished, added.aborted) == (2, total, finished, aborted)


def test_the_events_alone_add_up_too() -> None:
    stream: list[dict[str, Any] | None] = [
        {"event": "eval_start", "ts": 0, "total": 3, "models": ["m"], "variants": ["v"]},
        {"event": "answer", **key("p1"), "status": "ok", "metrics": {"total_s": 2.0}},
        {"event": "answer", **key("p2"), "status": "error"},
        {"event": "answer", **key("p1"), "status": "ok", "metrics": {"total_s": 4.0}},
        {"event": "eval_done", "total": 3, "answered": 2},
        {"event": "?"},
        None,
    ]
    view = build_view(stream)
    assert (view.total, view.done, view.finished, view.aborted) == (3, 2, True, True)
    (speed,) = view.models
    assert (speed.answers, speed.errors, speed.latency_p50) == (2, 1, 4.0)
    assert json.dumps(view.as_dict())


def test_an_event_is_its_answer_without_the_text() -> None:
    line = one("p1", answer="long text", ts=5.0, category="c", metrics={"total_s": 1.0})
    event = answer_event(line, 7, prior=True)
    assert (event.key, event.ts, event.i, event.category, event.prior) == (line.key, 5.0, 7, "c", True)
    assert event.metrics is not None and event.metrics.total_s == 1.0
    assert "long text" not in encode(event).decode()


EVENTS = st.lists(
    st.one_of(
        st.builds(EvalStart, total=st.none() | st.integers(0, 9), models=st.lists(st.sampled_from("ab")).map(tuple)),
        st.builds(
            AnswerEvent, model=st.sampled_from("ab"), variant=st.just("v"), prompt_id=st.sampled_from("pq"),
            repeat=st.integers(0, 1), status=st.sampled_from([None, "ok", "truncated", "empty", "error"]),
        ),
        st.builds(EvalDone, ts=st.none() | st.floats(0, 1e9)),
    ),
    max_size=15,
)  # fmt: skip


@settings(deadline=None)
@given(EVENTS)
def test_lines_mappings_and_events_are_one_stream(stream: list[EvalEvent]) -> None:
    lines = [encode(event).decode() for event in stream]
    assert [parse_line(line) for line in lines] == stream
    wanted = build_view(stream)
    assert build_view(parse_line(line) for line in lines) == wanted
    assert build_view(json.loads(line) for line in lines) == wanted
    answers = {event.key: event for event in stream if isinstance(event, AnswerEvent)}
    assert wanted.done == len(answers)
    assert sum(speed.errors for speed in wanted.models) == sum(e.status == "error" for e in answers.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[]",
        '{"event": "answer"}',
        '{"event": "what"}',
        '{"total": 1}',
        '{"event": "eval_start", "total": -1}',
        '{"event": "eval_start", "total": NaN}',
        '{"event": "eval_start", "ts": "\ud800"}',
        "[" * 10_000,
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_what_is_no_event_is_none(text: str) -> None:
    assert parse_line(text) is None


@pytest.mark.parametrize(
    ("times", "eta"),
    [
        ([], None),
        ([10.0], None),
        ([10.0, 14.0], 28.0),
        ([10.0, 11.0, 16.0], 18.0),
        ([20.0, 10.0], None),
    ],
    ids=["none", "one", "two", "the mean", "a clock set back"],
)
def test_the_pace_is_that_of_the_latest_run(times: list[float], eta: float | None) -> None:
    earlier = fold(one("p0"))
    earlier.add(EvalStart(ts=0.0, total=10))
    for ts in (1.0, 1001.0):
        earlier.add(AnswerEvent(**key("p0"), ts=ts))
    earlier.add(EvalStart(ts=5.0, total=10))
    earlier.add(AnswerEvent(**key("p0"), ts=6.0, prior=True))
    for slot, ts in enumerate(times, start=1):
        earlier.add_answer(one(f"p{slot}", ts=ts), slot, slot * 100)
        earlier.add(AnswerEvent(**key(f"p{slot}"), ts=ts))
    assert earlier.eta_s == eta
    earlier.add(EvalDone(ts=99.0, total=10))
    assert earlier.eta_s is None
