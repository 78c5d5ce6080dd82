"""Bytes to a reply: however they are cut, whatever the shape."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.standin import delta, usage_of
from touchstone.chat.stream import texts_of
from touchstone.chat.wire import ChatFailure, Reply, StreamParser

Outcome = Reply | tuple[str, str]


def data(value: object, end: str = "\n") -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"data: {text}{end}{end}".encode()


def parsed(pieces: Sequence[bytes], **options: Any) -> Outcome:
    """The reply to these pieces, or kind and message of the failure; everything happens at second 1."""
    parser = StreamParser(0.0, **options)
    try:
        for piece in pieces:
            parser.feed(piece, 1.0)
        return parser.close(1.0)
    except ChatFailure as failure:
        return failure.kind, failure.message


def reply_of(*pieces: bytes, **options: Any) -> Reply:
    outcome = parsed(pieces, **options)
    assert isinstance(outcome, Reply), outcome
    return outcome


def kind_of(*pieces: bytes) -> str:
    outcome = parsed(pieces)
    assert isinstance(outcome, tuple), outcome
    return outcome[0]


FINISH = data(delta(finish="stop"))
DONE = data("[DONE]")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_line_ends_of_all_three_kinds(end: str) -> None:
    assert reply_of(data(delta("a"), end) + data(delta("b", finish="stop"), end)).text == "ab"


def test_line_end_cut_in_two_with_nothing_between() -> None:
    half = json.dumps(delta("a", finish="stop"), indent=1).split("\n", 1)
    rest = half[1].replace("\n", "\r\ndata: ")
    assert reply_of(f"data: {half[0]}\r".encode(), b"", f"\ndata: {rest}\r\n\r\n".encode()).text == "a"


def test_comments_and_unknown_fields_are_skipped() -> None:
    noise = b": ping\nretry: 5\nid: 7\nevent: message\nnonsense\n"
    assert reply_of(noise, data(delta("a")), noise, FINISH).text == "a"


def test_data_over_several_lines_is_one_event() -> None:
    text = json.dumps(delta("a", finish="stop"), indent=1)
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    assert reply_of(lines.encode() + b"\n").text == "a"


def test_data_without_a_space_behind_the_colon() -> None:
    assert reply_of(b"data:" + json.dumps(delta("a", finish="stop")).encode() + b"\n\n").text == "a"


def test_byte_order_mark_in_front() -> None:
    assert reply_of(b"\xef\xbb\xbf" + data(delta("a", finish="stop"))).text == "a"


def test_last_event_without_its_empty_line_counts() -> None:
    assert reply_of(data(delta("a", finish="stop")).rstrip()).text == "a"


def test_nothing_counts_behind_done() -> None:
    assert reply_of(data(delta("a", finish="stop")), DONE, data(delta("b")), b"rubbish").text == "a"


def test_usage_comes_in_a_last_chunk_without_choices() -> None:
    last = data({"choices": [], "usage": usage_of(5, 3, cached=1)})
    metrics = reply_of(data(delta("a")), FINISH, last, DONE).metrics
    assert (metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens) == (5, 3, 1)


def test_usage_may_be_null_in_every_chunk_but_one() -> None:
    first = data({**delta("a"), "usage": usage_of(5, 3)})
    assert reply_of(first, data({**delta(finish="stop"), "usage": None}), DONE).metrics.prompt_tokens == 5


def test_usage_of_groq_stands_in_its_own_field() -> None:
    last = data({**delta(finish="stop"), "x_groq": {"usage": usage_of(9, 2)}})
    assert reply_of(data(delta("a")), last).metrics.prompt_tokens == 9


def test_only_the_first_choice_is_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert reply_of(data(delta("yes")), data(other), FINISH).text == "yes"


def test_refusal_is_what_the_model_said() -> None:
    assert reply_of(data(delta(refusal="I can't.")), FINISH).text == "I can't."


def test_both_reasoning_fields_with_the_same_text_count_once() -> None:
    assert reply_of(data(delta("a", reasoning="Hm", reasoning_content="Hm")), FINISH).reasoning == "Hm"


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([], "silent"),
        ([b": ping\n\n"], "silent"),
        ([data(delta(role="assistant"))], "silent"),
        ([data(delta("a"))], "stream"),
        ([data(delta("a")), b'data: {"choices": [{"del'], "stream"),
        ([b"data: rubbish\n\n"], "stream"),
        ([b'{"choices": [{"message": {"content": "a"'], "stream"),
        ([b'{"choices": []}'], "silent"),
        ([data({"error": {"message": "overloaded", "code": 503}})], "retryable"),
        ([data({"error": "boom"})], "retryable"),
        ([b'event: error\ndata: {"error": {"message": "boom"}}\n\n'], "retryable"),
        ([b'error: {"code": 500, "message": "boom", "error": "boom"}\n\n'], "retryable"),
        ([data(delta("a", finish="error"))], "stream"),
        ([b"<!doctype html><html><title>Open WebUI</title></html>"], "address"),
        ([b'{"error": "Unexpected endpoint or method. (POST /chat/completions)"}'], "address"),
        ([b'[{"error": {"code": 400, "message": "API key not valid."}}]'], "key"),
    ],
    ids=[
        "nothing",
        "comments only",
        "role only",
        "no end",
        "cut within an event",
        "no JSON",
        "cut JSON body",
        "no choices",
        "error with a number",
        "error as a text",
        "named error event",
        "error field of older llama.cpp",
        "finish_reason error",
        "web page",
        "wrong path, told with 200",
        "list of errors, told with 200",
    ],
)
def test_streams_that_are_no_answer(pieces: list[bytes], kind: str) -> None:
    assert kind_of(*pieces) == kind


def test_half_of_an_emoji_in_each_of_two_chunks() -> None:
    first, second = (
        rb'data: {"choices":[{"delta":{"content":"\ud83d"}}]}',
        rb'data: {"choices":[{"delta":{"content":"\ude00"}}]}',
    )
    assert reply_of(first + b"\n\n", second + b"\n\n", FINISH).text == "😀"


def test_multibyte_character_cut_in_the_middle() -> None:
    raw = json.dumps(delta("Grüße 😀", finish="stop"), ensure_ascii=False).encode()
    stream = b"data: " + raw + b"\n\n"
    assert reply_of(*[stream[i : i + 1] for i in range(len(stream))]).text == "Grüße 😀"


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a", ("a", "")),
        (None, ("", "")),
        (7, ("", "")),
        (["a", {"type": "text", "text": "b"}], ("ab", "")),
        ([{"type": "thinking", "thinking": "h"}, {"text": None}, None], ("", "h")),
    ],
)
def test_content_of_every_shape(content: object, texts: tuple[str, str]) -> None:
    assert texts_of(content) == texts


def test_times_are_measured_at_the_tokens_and_at_done() -> None:
    parser = StreamParser(10.0)
    parser.feed(data(delta(role="assistant")), 11.0)
    assert not parser.started
    parser.feed(data(delta(reasoning="Hm")), 12.0)
    assert parser.started
    parser.feed(data(delta("a")), 13.0)
    parser.feed(data(delta("b", finish="stop")), 14.0)
    parser.feed(data({"choices": [], "usage": usage_of(5, 5)}) + DONE, 15.0)
    assert parser.done
    metrics = parser.close(99.0).metrics
    assert (metrics.ttft_s, metrics.total_s, metrics.gen_tps) == (2.0, 5.0, 2.0)


# ── however it is cut ────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(st.characters(codec=None), max_size=8)
EVENTS = st.one_of(
    TEXTS.map(delta),
    TEXTS.map(lambda text: delta(reasoning_content=text)),
    st.sampled_from(["<think>", "</think>", "{", "}"]).map(delta),
    st.sampled_from([delta(finish="stop"), delta(finish="length"), delta(role="assistant"), {"choices": None}]),
    st.just({"choices": [], "usage": usage_of(3, 4)}),
    st.just({"error": {"message": "boom", "code": 503}}),
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    parts = [draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n", b"\r\n"]))]
    for event in draw(st.lists(EVENTS, max_size=8)):
        end = draw(LINE_ENDS)
        text = json.dumps(event, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        lines = text.encode("utf-8", "replace").split(b"\n")
        parts += [b"data: " + line + end for line in lines]
        parts += [draw(st.sampled_from([b"", b": ping" + end])), end]
    parts.append(draw(st.sampled_from([b"", b"data: [DONE]\n\n", b"data: [DO", b"data: rubbish\n\n", b"\r"])))
    return b"".join(parts)


@st.composite
def cut(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> tuple[bytes, list[bytes]]:
    raw = draw(whole)
    places = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    bounds = [0, *places, len(raw)]
    return raw, [raw[a:b] for a, b in itertools.pairwise(bounds)]


WHOLE = st.one_of(
    streams(),
    st.binary(max_size=60),
    EVENTS.map(lambda event: json.dumps(event).encode()),
    TEXTS.map(lambda text: json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()),
)


@settings(deadline=None)
@given(cut(WHOLE), st.sampled_from([None, "json_schema"]))
def test_reply_is_the_same_however_the_bytes_are_cut(sample: tuple[bytes, list[bytes]], mode: str | None) -> None:
    raw, pieces = sample
    assert parsed(pieces, mode=mode) == parsed([raw], mode=mode)


@settings(deadline=None)
@given(streams())
def test_reply_is_the_same_byte_by_byte(raw: bytes) -> None:
    assert parsed([raw[i : i + 1] for i in range(len(raw))]) == parsed([raw])


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_text_can_always_be_stored(texts: list[str]) -> None:
    outcome = parsed([*(data(delta(text)) for text in texts), FINISH, DONE])
    assert isinstance(outcome, Reply)
    assert "\0" not in outcome.text
    outcome.text.encode("utf-8")
