"""Replies that mean harm or come from broken software: bounded memory, plain words, nothing that cannot be stored."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from tests.chat.asking import ask, json_question, question
from tests.standin import (
    STREAM_HEAD,
    Forever,
    StandIn,
    chunked,
    delta,
    endless,
    error,
    event,
    openai_error,
    plain,
    raw,
    redirect,
    say,
    stream,
)
from touchstone.chat import Endpoint, Reply, note_of, status_of
from touchstone.chat import stream as stream_module
from touchstone.chat.sse import MAX_EVENT_BYTES, EventCutter, EventTooLong
from touchstone.errors import EndpointError

DEEP = "[" * 10_000 + "]" * 10_000
FINISH = delta(finish="stop")


@pytest.mark.parametrize(
    ("chunk", "text"),
    [
        (rb'{"choices":[{"index":0,"delta":{"content":"a\ud800b"}}]}', "a\ufffdb"),
        (rb'{"choices":[{"index":0,"delta":{"content":"a\u0000b"}}]}', "a\ufffdb"),
        (b'{"choices":[{"index":0,"delta":{"content":"a\xffb"}}]}', "a\ufffdb"),
        (b'{"choices":[{"index":0,"delta":{"content":"ab"},"logprob":NaN}],"usage":{"prompt_tokens":NaN}}', "ab"),
        (b'{"choices":[{"delta":{"content":"ab"}}],"usage":{"prompt_tokens":' + b"9" * 400 + b"}}", "ab"),
        (b'{"choices":[{"delta":{"content":"ab"}}],"usage":{"prompt_tokens":-3,"completion_tokens":1e999}}', "ab"),
        (b'{"choices":[{"delta":{"content":"ab"}}],"usage":[],"timings":7,"model":{}}', "ab"),
        (b'{"choices":[{"delta":{"content":"ab"}},null,7],"usage":{"prompt_tokens":true}}', "ab"),
    ],
    ids=["lone surrogate", "NUL", "broken UTF-8", "NaN", "400 digits", "infinity", "wrong types", "odd choices"],
)
def test_odd_values_cost_no_answer_and_become_null(chunk: bytes, text: str) -> None:
    told = ask(lambda _: stream(chunked(b"data: " + chunk + b"\n\n"), FINISH, "[DONE]"))
    assert told.reply.text == text
    assert told.reply.metrics.prompt_tokens is None
    assert told.reply.metrics.completion_tokens is None


@pytest.mark.parametrize(
    "action",
    [stream(DEEP), plain(DEEP), stream(f'{{"error": {DEEP}}}'), error(400, DEEP), error(500, f'{{"error": {DEEP}}}')],
    ids=["event", "body", "error in a stream", "error body", "500"],
)
def test_json_ten_thousand_levels_deep_is_one_failed_answer(action: object) -> None:
    told = ask(lambda _: action, retries=0)  # type: ignore[arg-type,return-value]
    assert told.failure.kind in ("stream", "permanent", "retryable")
    assert len(str(told.failure)) < 400


def test_deep_json_in_the_text_is_text() -> None:
    told = ask(lambda _: say("", reasoning=DEEP), json_question())
    assert status_of(told.reply) == "empty"


def test_numbers_of_five_thousand_digits_are_no_crash() -> None:
    chunk = b'data: {"choices":[],"usage":{"prompt_tokens":' + b"9" * 5_000 + b"}}\n\n"
    assert ask(lambda _: stream(chunked(chunk)), retries=0).failure.kind == "stream"


def peak_of(script: object, **options: object) -> tuple[str, int]:
    tracemalloc.start()
    told = ask(lambda _: script, retries=0, **options)  # type: ignore[arg-type,return-value]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return str(told.result), peak


BIG = 64 * 1024


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (stream(Forever(event(delta("x" * BIG)))), "longer than 4194304 characters"),
        (stream(Forever(event(delta(reasoning="x" * BIG)))), "longer than 4194304 characters"),
        (stream(chunked(b"data: "), Forever(chunked(b"x" * BIG))), "longer than 8388608 bytes"),
        (stream(chunked(b":"), Forever(chunked(b"x" * BIG))), "longer than 8388608 bytes"),
        (stream(Forever(chunked(b"data: x\n" * 8_000))), "longer than 8388608 bytes"),
        (stream(chunked(b'{"a": "'), Forever(chunked(b"x" * BIG))), "longer than 16777216 bytes"),
        (endless(b"x" * BIG, status=400), "the server answers 400"),
    ],
    ids=["text", "thinking", "line", "comment", "data lines", "JSON body", "error body"],
)
def test_endless_replies_do_not_eat_memory(action: object, words: str) -> None:
    said, peak = peak_of(action)
    assert words in said
    assert peak < 80 * 1024 * 1024


def test_endless_comments_end_with_the_wall_clock() -> None:
    said, peak = peak_of(stream(Forever(chunked(b": x\n\n" * 10_000))), timeout_s=1.0)
    assert "no first token within 1 s" in said
    assert peak < 40 * 1024 * 1024


def test_trickled_bytes_of_one_line_cost_no_quadratic_time() -> None:
    cutter = EventCutter()
    assert list(cutter.feed(b"data: ")) == []
    for _ in range(200_000):
        assert not list(cutter.feed(b"x"))
    assert [len(found) for found in cutter.feed(b"\n\n")] == [200_000]


def test_event_that_comes_at_once_is_bounded_too() -> None:
    with pytest.raises(EventTooLong):
        list(EventCutter().feed(b"data: " + b"x" * MAX_EVENT_BYTES + b"\n\n"))


def test_flood_of_headers_is_one_failed_answer() -> None:
    head = b"HTTP/1.1 200 X\r\n"
    told = ask(lambda _: raw(head, Forever(b"x-flood: " + b"y" * 1_000 + b"\r\n")), retries=0)
    assert told.failure.kind == "connection"


@pytest.mark.parametrize(
    "answer",
    [b"\x16\x03\x01\x02\x00" * 20, b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200\r\nx\r\n\r\n"],
    ids=["TLS", "SSH", "no status", "broken header"],
)
def test_something_that_does_not_speak_http(answer: bytes) -> None:
    told = ask(lambda _: raw(answer), retries=0)
    assert told.failure.kind == "connection"


def test_body_that_ends_before_its_length() -> None:
    head = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
    told = ask(lambda _: raw(head, b"data: {}\n\n"), retries=0)
    assert told.failure.kind == "silent"


def test_chunked_rubbish() -> None:
    told = ask(lambda _: raw(STREAM_HEAD, event(delta("half")), b"zz\r\nrubbish"), retries=0)
    assert told.failure.kind == "stream"


def test_compressed_reply_is_refused_unopened() -> None:
    told = ask(lambda _: plain(b"\x1f\x8b", headers={"content-encoding": "gzip"}), retries=0)
    assert "compresses its reply" in str(told.failure)
    assert told.chats[0].headers["accept-encoding"] == "identity"


def test_error_text_cannot_drive_the_terminal() -> None:
    told = ask(lambda _: openai_error(400, "bad\x1b[2J\x1b]0;owned\x07\nsecond\u202eline"))
    assert str(told.failure).isprintable()


def test_long_error_is_cut() -> None:
    assert len(str(ask(lambda _: openai_error(400, "long " * 5_000)).failure)) < 400


def test_error_that_echoes_our_prompt_is_not_repeated() -> None:
    body = {"detail": [{"loc": ["body", "messages"], "msg": "wrong", "input": "the whole private prompt"}]}
    assert "private" not in str(ask(lambda _: error(422, body)).failure)


def test_text_limit_counts_answer_and_thinking_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "MAX_TEXT", 100)
    assert ask(lambda _: say("a" * 50, reasoning="b" * 50)).reply.text == "a" * 50
    assert ask(lambda _: say("a" * 51, reasoning="b" * 50)).failure.kind == "permanent"


# ── nothing secret leaves ────────────────────────────────────────────────────────────────────────────────────────────

KEY = "sk-very/secret+key=="


@pytest.mark.parametrize("status", [200, 400, 401, 402, 404, 429, 500])
@pytest.mark.parametrize(
    "echo",
    [KEY, json.dumps(KEY)[1:-1].replace("/", "\\/"), "sk-very%2Fsecret%2Bkey%3D%3D", "x" * 60_000 + KEY],
    ids=["bare", "escaped", "percent", "far behind"],
)
def test_key_echoed_by_the_server_is_hidden(status: int, echo: str) -> None:
    told = ask(lambda _: error(status, f'{{"error": {{"message": "bad key {echo} here"}}}}'), api_key=KEY, retries=0)
    said = [str(told.result), repr(told.result), *told.notes]
    assert not any("very" in text for text in said)


def test_key_echoed_as_plain_text_is_hidden() -> None:
    told = ask(lambda _: error(400, f"no {KEY}"), api_key=KEY)
    assert "[hidden]" in str(told.failure)
    assert "very" not in str(told.failure)


def test_key_echoed_as_the_model_or_in_rubbish_is_hidden() -> None:
    told = ask(lambda _: say("a", model=KEY), api_key=KEY)
    assert isinstance(told.result, Reply)
    assert "very" not in "".join(told.notes)
    assert "very" not in str(ask(lambda _: stream(f"rubbish {KEY}"), api_key=KEY, retries=0).failure)


def test_key_echoed_as_the_answer_is_kept_nowhere() -> None:
    key = "sk-v3ry/secret+key=="
    told = ask(lambda _: say(f"see {key}!", reasoning=f"so {key}", finish=key, model=key), api_key=key)
    assert told.reply.text == "see [hidden]!" and told.reply.reasoning == "so [hidden]"
    assert (told.reply.finish_reason, told.reply.model) == ("[hidden]", "[hidden]")


@pytest.mark.parametrize("word", ["ollama", "lm-studio", "sk-no-key-required", "1234567890123456"])
def test_a_key_that_may_be_a_word_changes_no_answer(word: str) -> None:
    assert ask(lambda _: say(f"Use {word}."), api_key=word).reply.text == f"Use {word}."


def test_credentials_in_the_address_are_used_but_never_shown() -> None:
    told = ask(
        lambda _: error(401, {"error": "no, bWU6aHVudGVyMi14 and hunter2-x"}),
        url=lambda server: f"http://me:hunter2-x@127.0.0.1:{server.port}/v1?token=abcdefghijklmnop",
    )
    assert told.chats[0].headers["authorization"] == "Basic bWU6aHVudGVyMi14"
    assert told.chats[0].query == {"token": "abcdefghijklmnop"}
    for secret in ("hunter2", "bWU6", "abcdefgh"):
        assert secret not in told.useless


def test_repr_and_safe_url_hold_no_secrets() -> None:
    endpoint = Endpoint("https://me:hunter2-x@example.org/v1?token=abcdefgh", api_key=KEY)
    assert endpoint.safe_url == "https://example.org/v1"
    assert repr(endpoint) == "Endpoint('https://example.org/v1')"


def test_key_that_cannot_stand_in_a_header_is_said_without_showing_it() -> None:
    for key in ("sk-sécret", "sk-se cret", "sk-se\ncret", "sk-se\x00cret"):
        with pytest.raises(EndpointError, match="cannot be sent") as info:
            Endpoint("http://localhost:1234", api_key=key)
        assert "cret" not in str(info.value)


def test_redirect_is_not_followed_and_its_secrets_not_shown() -> None:
    with StandIn() as other:
        target = f"http://me:hunter2-x@127.0.0.1:{other.port}/v1/chat/completions?token=abcdefgh"
        told = ask(lambda _: redirect(target), api_key=KEY)
        assert other.requests == []
    assert f"points to http://127.0.0.1:{other.port}/v1/chat/completions" in told.useless
    assert "hunter2" not in told.useless
    assert "abcdefgh" not in told.useless


def test_note_of_an_answer_is_none() -> None:
    assert note_of(ask(None, question()).reply) is None
