"""Lines of logs: what is required, what reads as null, what is refused; hostile bytes end in a reason."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone import events, judge_events
from touchstone.contracts.lines import Answer, Metrics, Report, Verdict
from touchstone.jsonsource import Refused, clean_text, parse_any, parse_model, visible
from touchstone.store.write import encode

KEY: dict[str, Any] = {"model": "m", "variant": "v", "prompt_id": "p", "repeat": 0}


def line(**fields: Any) -> bytes:
    return json.dumps({**KEY, **fields}).encode()


def verdict(**fields: Any) -> Verdict:
    return parse_model(Verdict, line(**fields))


@pytest.mark.parametrize("score", [1, 2, 3, 4, 5])
def test_scores(score: int) -> None:
    assert verdict(score=score).score == score


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "neither score nor unscored"),
        ({"score": 0}, "0 stands only with unscored"),
        ({"score": 6}, "less than or equal to 5"),
        ({"score": -1}, "greater than or equal to 0"),
        ({"score": 10**400}, "less than or equal"),
        ({"score": 4.0}, "valid integer"),
        ({"score": "4"}, "valid integer"),
        ({"score": True}, "valid integer"),
        ({"score": 3, "unscored": True}, "contradict"),
        ({"score": 3, "repeat": -1}, "repeat"),
        ({"score": 3, "repeat": None}, "repeat"),
        ({"score": 3, "model": ""}, "model"),
        ({"score": 3, "model": "a\nb"}, "model"),
        ({"score": 3, "model": "x" * 501}, "model"),
        ({"score": 3, "model": 7}, "model"),
        ({"score": 3, "red_flag": "yes"}, "red_flag"),
        ({"score": 3, "ts": "yesterday"}, "ts"),
        ({"score": 3, "rationale": "a\0b"}, "NUL"),
        ({"score": 3, "mode": "telepathy"}, "mode"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_verdict_must_not_be(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        verdict(**fields)


def test_what_is_absent_reads_as_null() -> None:
    one = verdict(unscored=True)
    assert one.score is None and one.red_flag is None and one.rationale is None and one.ts is None
    assert verdict(score=0, unscored=True).unscored and verdict(score=None, unscored=True).unscored
    answer = parse_model(Answer, line(answer="x"))
    assert answer.status is None and answer.metrics is None and answer.judgeable
    for missing in KEY:
        with pytest.raises(Refused, match=f"{missing} is missing"):
            parse_model(Answer, json.dumps({k: v for k, v in {**KEY, "answer": ""}.items() if k != missing}).encode())


@pytest.mark.parametrize(
    ("ts", "seconds"),
    [(0, 0.0), (1.5, 1.5), ("1970-01-01T00:00:10Z", 10.0), ("1970-01-01T01:00:10+01:00", 10.0), ("1970-01-01", 0.0)],
)
def test_times_are_seconds_or_iso(ts: object, seconds: float) -> None:
    assert verdict(score=1, ts=ts).ts == seconds


def test_negative_zero_is_zero() -> None:
    assert math.copysign(1, verdict(score=1, ts=-0.0).ts or 1.0) == 1.0


HOSTILE = {
    "empty": b"",
    "half": b'{"model": "m", "sco',
    "no object": b"[1]",
    "NaN": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"ts":NaN}',
    "NaN elsewhere": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"other":NaN}',
    "Infinity": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"ts":-Infinity}',
    "1e999": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"ts":1e999}',
    "400 digits": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":' + b"9" * 400 + b"}",
    "5000 digits": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"other":' + b"9" * 5000 + b"}",
    "deep": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"x":'
    + b"[" * 10_000
    + b"]" * 10_000
    + b"}",
    "lone surrogate": b'{"model":"\\ud800","variant":"v","prompt_id":"p","repeat":0,"score":1}',
    "NUL escape": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"rationale":"\\u0000"}',
    "raw NUL": b'{"model":"m\x00","variant":"v","prompt_id":"p","repeat":0,"score":1}',
    "not UTF-8": b'{"model":"\xff","variant":"v","prompt_id":"p","repeat":0,"score":1}',
    "17 MB": b'{"model":"m","variant":"v","prompt_id":"p","repeat":0,"score":1,"rationale":"'
    + b"x" * 17_000_000
    + b'"}',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_lines_end_in_a_reason(data: bytes) -> None:
    with pytest.raises(Refused) as caught:
        parse_model(Verdict, data)
    assert 0 < len(str(caught.value)) < 1000 and "\n" not in str(caught.value)


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert verdict(score=1, rationale="\\u0000").rationale == "\\u0000"


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300)))
def test_any_line_is_a_value_or_none(data: bytes | str) -> None:
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    judge_events.parse_line(text)
    events.parse_line(text)
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    for model in (Answer, Verdict, Report):
        try:
            parse_model(model, raw)
        except Refused:
            continue


TEXT = st.text(max_size=30).map(clean_text)
NAME = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)


@given(
    st.builds(
        Verdict,
        model=NAME, variant=NAME, prompt_id=NAME, repeat=st.integers(0, 999_999), score=st.integers(1, 5),
        rationale=TEXT, red_flag=st.none() | st.booleans(), ts=st.none() | st.floats(-1e9, 1e10),
        category=st.none() | TEXT, i=st.none() | st.integers(0, 10**6), unscored=st.just(False),
    )
)  # fmt: skip
def test_encoding_and_parsing_round_trip(one: Verdict) -> None:
    data = encode(one)
    assert data.endswith(b"\n") and data.count(b"\n") == 1
    assert parse_model(Verdict, data[:-1]) == one


@given(st.text())
def test_cleaned_text_can_be_stored_and_visible_text_can_be_shown(text: str) -> None:
    clean = clean_text(text)
    clean.encode("utf-8")
    assert "\0" not in clean and clean_text(clean) == clean
    assert visible(visible(text)) == visible(text)


def test_any_json_has_a_depth() -> None:
    assert parse_any('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    for bad in ("[" * 10_000, "NaN", "", "{", '"\ud800"'):
        with pytest.raises(Refused):
            parse_any(bad)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ({"a": 1, "b": 5, "c": None}, None),
        ({}, None),
        ({"a": 0}, "dim_scores.a: should be greater than or equal to 1"),
        ({"a": 6}, "dim_scores.a: should be less than or equal to 5"),
        ({"a": 3.0}, "dim_scores.a: should be a valid integer"),
        ({"a": "3"}, "dim_scores.a: should be a valid integer"),
        ({"a": True}, "dim_scores.a: should be a valid integer"),
        (None, "dim_scores"),
        ([1], "dim_scores"),
    ],
    ids=["all sorts", "none", "zero", "six", "a fraction", "text", "true", "null", "a list"],
)
def test_the_scores_of_a_report_are_1_to_5_or_null(scores: Any, says: str | None) -> None:
    data = json.dumps({"model": "m", "variant": "v", "dim_scores": scores}).encode()
    if says is None:
        assert parse_model(Report, data).dim_scores == scores
    else:
        with pytest.raises(Refused, match=says):
            parse_model(Report, data)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "answer is missing"),
        ({"answer": None}, "answer: should be a valid string"),
        ({"answer": "x", "status": "fine"}, "status: should be 'ok', 'truncated', 'empty' or 'error'"),
        ({"answer": "x", "metrics": {"total_s": -0.1}}, "metrics.total_s: should be greater than or equal to 0"),
        ({"answer": "x", "metrics": {"total_s": 1e19}}, "metrics.total_s: should be less than or equal to"),
        ({"answer": "x", "metrics": {"total_s": "1"}}, "metrics.total_s: should be a valid number"),
        ({"answer": "x", "metrics": {"prompt_tokens": 1.5}}, "metrics.prompt_tokens: should be a valid integer"),
        ({"answer": "x", "metrics": []}, "metrics"),
    ],
    ids=["none", "null", "another status", "negative time", "an age of the universe", "time as text", "half a token",
         "a list for a mapping"],
)  # fmt: skip
def test_what_an_answer_must_not_be(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        parse_model(Answer, line(**fields))


@pytest.mark.parametrize(
    ("status", "text", "judgeable"),
    [("ok", "x", True), ("truncated", "x", True), (None, "x", True), ("ok", " \n", False), ("ok", "", False),
     ("error", "x", False), ("empty", "x", False), (None, "", False)],
)  # fmt: skip
def test_only_a_text_can_be_judged(status: str | None, text: str, judgeable: bool) -> None:
    assert parse_model(Answer, line(answer=text, status=status)).judgeable is judgeable


def test_an_answer_is_known_by_its_text_and_its_status() -> None:
    one = parse_model(Answer, line(answer="x", status="ok", ts=1)).sha
    assert parse_model(Answer, line(answer="x", status="ok", ts=2, category="c", metrics={"total_s": 1})).sha == one
    assert parse_model(Answer, line(answer="x", status="truncated")).sha != one
    assert parse_model(Answer, line(answer="y", status="ok")).sha != one


def test_a_measured_minus_zero_is_zero() -> None:
    metrics = parse_model(Metrics, b'{"total_s": -0.0, "gen_tps": 0}')
    assert math.copysign(1, metrics.total_s or 0.0) == 1.0 and metrics.gen_tps == 0.0


AMOUNT = st.none() | st.floats(0, 1e18)
COUNT = st.none() | st.integers(0, 10**15)


@given(
    st.builds(
        Answer, model=NAME, variant=NAME, prompt_id=NAME, repeat=st.integers(0, 999_999), answer=TEXT,
        reasoning=st.none() | TEXT, status=st.sampled_from([None, "ok", "truncated", "empty", "error"]),
        error=st.none() | TEXT, ts=st.none() | st.floats(-1e11, 1e12),
        metrics=st.none() | st.builds(Metrics, ttft_s=AMOUNT, total_s=AMOUNT, prompt_tokens=COUNT, gen_tps=AMOUNT),
    )
)  # fmt: skip
def test_answers_round_trip(one: Answer) -> None:
    again = parse_model(Answer, encode(one)[:-1])
    assert again == one and again.sha == one.sha


@given(
    st.builds(
        Report, model=NAME, variant=NAME, dim_scores=st.dictionaries(TEXT, st.none() | st.integers(1, 5), max_size=4),
        dim_rationales=st.dictionaries(TEXT, st.none() | TEXT, max_size=4), summary=st.none() | TEXT,
        answers_seen=COUNT, ts=st.none() | st.floats(-1e11, 1e12),
    )
)  # fmt: skip
def test_reports_round_trip(one: Report) -> None:
    assert parse_model(Report, encode(one)[:-1]) == one


@pytest.mark.parametrize(
    ("ts", "good"),
    [
        ("2026-06-20T10:48:44Z", True), ("2026-06-20 10:48:44.5+02:00", True), ("20260620T104844", True),
        ("0001-01-01T00:00:00+23:59", True), ("9999-12-31T23:59:59-23:59", True),
        ("", False), ("now", False), ("2026-13-01", False), ("10:48", False), (1e13, False), (-1e12, False),
        (10**400, False), (True, False), ([1], False),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_moments_are_taken_or_refused(ts: object, good: bool) -> None:
    if good:
        assert verdict(score=1, ts=ts).ts is not None
    else:
        with pytest.raises(Refused, match="ts: "):
            verdict(score=1, ts=ts)
