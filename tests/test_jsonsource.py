"""Untrusted JSON: a value, or one short line that says why not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import answer, key, verdict
from touchstone import events, judge_events
from touchstone.contracts.lines import Answer, Report, Verdict
from touchstone.errors import brief
from touchstone.jsonsource import MAX_LINE_BYTES, Refused, clean_text, parse_any, parse_model, visible
from touchstone.load import read_resources

VERDICT = json.dumps(verdict()).encode()


def extended(more: bytes) -> bytes:
    """A good verdict with something appended inside its braces."""
    return VERDICT[:-1] + b", " + more + b"}"


def reason(data: bytes) -> str:
    with pytest.raises(Refused) as caught:
        parse_model(Verdict, data)
    return str(caught.value)


def one_line(text: str) -> bool:
    return 0 < len(text) < 1200 and text.isprintable()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not valid JSON: EOF"),
        (b"{", "not valid JSON: EOF"),
        (b"null", "should be an object"),
        (b"[]", "should be an object"),
        (b'"text"', "should be an object"),
        (VERDICT + VERDICT, "not valid JSON: trailing characters"),
        (b"\xef\xbb\xbf" + VERDICT, "not valid JSON"),
        (b"{}", "model is missing; variant is missing; prompt_id is missing; repeat is missing"),
        (extended(b'"ts": NaN'), "not valid JSON"),
        (extended(b'"unknown": NaN'), "not valid JSON"),
        (extended(b'"unknown": [1, -Infinity]'), "not valid JSON"),
        (extended(b'"ts": 1e400'), "finite"),
        (extended(b'"i": ' + b"9" * 400), "i: "),
        (extended(b'"ts": ' + b"9" * 400), "ts: "),
        (extended(b'"rationale": "a\\u0000b"'), "holds a NUL character"),
        (extended(b'"unknown": {"a": ["\\u0000"]}'), "holds a NUL character"),
        (extended(b'"a\\u0000b": 1'), "holds a NUL character"),
        (extended(b'"rationale": "a\x00b"'), "not valid JSON: control character"),
        (extended(b'"rationale": "\\ud800"'), "not valid JSON: "),
        (extended(b'"rationale": "\\udc00\\ud800"'), "not valid JSON: "),
        (extended(b'"rationale": "\xed\xa0\x80"'), "not valid JSON: invalid unicode"),
        (extended(b'"rationale": "caf\xe9"'), "not valid JSON: invalid unicode"),
        (extended(b'"unknown": ' + b"[" * 10_000 + b"]" * 10_000), "not valid JSON: recursion limit"),
        (extended(b'"unknown": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000), "not valid JSON: recursion limit"),
    ],
    ids=["empty", "half", "null", "a list", "text", "two on a line", "byte order mark", "nothing in it", "NaN",
         "NaN in an unknown field", "Infinity in an unknown field", "1e400", "400 digits, whole", "400 digits, time",
         "NUL", "NUL deep in an unknown field", "NUL in a name", "raw NUL", "lone surrogate", "surrogates swapped",
         "surrogate bytes", "Latin-1", "10,000 lists", "10,000 mappings"],
)  # fmt: skip
def test_hostile_lines_are_refused_with_their_reason(data: bytes, says: str) -> None:
    found = reason(data)
    assert says in found and one_line(found)


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity and -Infinity", "\\u0000", "😀", "\u2028\u2029", "\x7f", "\r\n\t", "a" * 100_000],
    ids=ascii,
)
def test_text_that_only_looks_dangerous_is_text(text: str) -> None:
    for ascii_only in (True, False):
        data = json.dumps(verdict(rationale=text), ensure_ascii=ascii_only).encode()
        assert parse_model(Verdict, data).rationale == text


@pytest.mark.timeout(60)
def test_a_line_of_16_mb_is_read_and_a_longer_one_is_refused_unread() -> None:
    frame = len(extended(b'"rationale": ""'))
    fits = extended(b'"rationale": "' + b"x" * (MAX_LINE_BYTES - frame) + b'"')
    assert len(fits) == MAX_LINE_BYTES and parse_model(Verdict, fits).score == 3
    assert reason(fits + b" ") == "line of 16777217 bytes is longer than 16777216"
    assert reason(b"\xff" * 17_000_000) == "line of 17000000 bytes is longer than 16777216"
    with pytest.raises(Refused, match="text of 17000000 bytes"):
        parse_any("[" * 17_000_000)


@pytest.mark.parametrize(
    "fields",
    [
        {"ts": "x" * 1_000_000},
        {"status": "y" * 1_000_000},
        {"model": "z" * 1_000_000},
        {"metrics": {"ttft_s": "a\nb" * 100_000}},
    ],
    ids=["time", "choice", "name", "number"],
)
def test_a_reason_does_not_echo_what_was_sent(fields: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        parse_model(Answer, json.dumps(answer(**fields)).encode())
    assert one_line(str(caught.value))


@pytest.mark.parametrize("name", ["a\nb\x1b[31m", "k" * 100_000, "\u202e"], ids=["control", "long", "direction"])
def test_names_in_a_reason_are_short_and_printable(name: str) -> None:
    line = {"model": "m", "variant": "v", "dim_scores": {name: 9}}
    with pytest.raises(Refused, match=r"^dim_scores\..*less than or equal to 5$") as caught:
        parse_model(Report, json.dumps(line).encode())
    assert one_line(str(caught.value)) and len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\nb\tc", "a b c"),
        ("a\x1b[31mb\x00", "a [31mb"),
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 9 + "…"),
        (12, "12"),
    ],
    ids=ascii,
)
def test_brief(text: object, wanted: str) -> None:
    assert brief(text, 10) == wanted


@given(st.text(), st.integers(1, 80))
def test_what_is_quoted_is_one_printable_line(text: str, limit: int) -> None:
    found = brief(text, limit)
    assert len(found) <= limit and found.isprintable()


@pytest.mark.parametrize(
    ("data", "value"),
    [("null", None), (b"[1, 2.5]", [1, 2.5]), ('{"a": "é"}', {"a": "é"}), ("9" * 400, int("9" * 400))],
    ids=["null", "list", "mapping", "400 digits"],
)
def test_any_json(data: bytes | str, value: object) -> None:
    assert parse_any(data) == value


@pytest.mark.parametrize(
    "data", ["", "nul", "NaN", "Infinity", "[1,]", '"\ud800"', b'"\xe9"', "[" * 10_000 + "]" * 10_000], ids=ascii
)
def test_no_json(data: bytes | str) -> None:
    with pytest.raises(Refused, match=r"^not valid JSON: ") as caught:
        parse_any(data)
    assert one_line(str(caught.value))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain é 😀\n", "plain é 😀\n"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
    ],
    ids=ascii,
)
def test_clean_text(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tab\t line\n", "tab\t line\n"),
        ("a\x00\x1b\x7f\x85", "a\ufffd\ufffd\ufffd\ufffd"),
        ("\u202e\u202d", "\ufffd\ufffd"),
        ("\u2066\u200d", "\u2066\u200d"),
        ("\ufdd0\uffff\U0001fffe\U0010ffff", "\ufffd" * 4),
        ("\ud800", "\ufffd"),
    ],
    ids=ascii,
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, True, False, 0, -1, 1, 5, 6, 1.5, -0.0, 1e300, 10**30, "", "a", "\n", "1", "2026-01-01", "ok", [], {}, [1]]
)
NAMES = st.sampled_from(
    ["model", "variant", "prompt_id", "repeat", "score", "unscored", "red_flag", "rationale", "ts", "i", "answer",
     "status", "metrics", "dim_scores", "event", "total", "pct", "recommendation", "models", "mode", "x\ny"]
)  # fmt: skip
FIELDS = st.dictionaries(NAMES, ODD, max_size=8)
EVENTS = st.sampled_from(["judge_start", "verdict", "master", "judge_done", "eval_start", "answer", "eval_done", "?"])


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        FIELDS.map(lambda fields: json.dumps({**key(), **fields}).encode()),
        st.tuples(EVENTS, FIELDS).map(lambda pair: json.dumps({**key(), **pair[1], "event": pair[0]}).encode()),
    )
)
def test_any_line_is_a_value_or_one_short_reason(data: bytes) -> None:
    for parse in (
        lambda line: parse_model(Answer, line),
        lambda line: parse_model(Verdict, line),
        lambda line: parse_model(Report, line),
        read_resources,
        judge_events.read_event,
        events.read_event,
    ):
        try:
            parse(data)
        except Refused as refused:
            assert one_line(str(refused))
