"""The quirk table, row by row, on real sockets: what servers do, and that the client lives with it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from tests.chat.asking import ask, json_question, outcome, question
from tests.standin import (
    Action,
    Brain,
    Request,
    StandIn,
    after,
    break_off,
    close_before_header,
    delta,
    error,
    free_port,
    in_turn,
    openai_error,
    plain,
    reset_before_header,
    routes,
    say,
    say_plain,
    stall,
    stream,
    then_close,
    trickle_comments,
    usage_of,
)
from touchstone.chat import ChatRequest, Endpoint, Reply, http, note_of, status_of

ANSWER = '{"score": 4, "red_flag": false}'

OVERFLOW = {
    "error": {
        "code": 400,
        "message": "request (20031 tokens) exceeds the available context size (2048 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 20031,
        "n_ctx": 2048,
    }
}
LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
LM_STUDIO_FORMAT = {"error": "'response_format.type' must be 'json_schema' or 'text'"}


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_connection_closed_behind_a_stream_although_keep_alive_was_promised() -> None:
    told = ask(lambda _: then_close(say("fine")), *[question(user=str(i)) for i in range(5)])
    assert [status_of(reply) for reply in told.results if isinstance(reply, Reply)] == ["ok"] * 5
    assert told.slept == []


@pytest.mark.parametrize("breaking", [close_before_header(), reset_before_header()], ids=["closed", "reset"])
def test_connection_that_breaks_before_any_header_is_retried_once_for_free(breaking: Action) -> None:
    told = ask(in_turn(breaking, say("fine")), retries=0)
    assert told.reply.text == "fine"
    assert told.slept == []
    assert len(told.chats) == 2


def test_connection_that_always_breaks_is_given_up_after_the_retries() -> None:
    told = ask(lambda _: close_before_header(), retries=2)
    assert told.failure.kind == "connection"
    assert len(told.chats) == 4
    assert told.slept == [1.0, 2.0]


def test_idle_connections_expire_before_the_servers_do() -> None:
    assert http.LIMITS.keepalive_expiry is not None
    assert http.LIMITS.keepalive_expiry < 5


def test_connections_are_used_again_after_a_stream() -> None:
    told = ask(None, *[question(user=str(i)) for i in range(10)])
    assert told.connections == 1


def test_stuck_pool_gets_a_fresh_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LIMITS", httpx.Limits(max_connections=1))
    monkeypatch.setattr(http, "POOL_TIMEOUT_S", 0.1)

    async def run(server: StandIn) -> None:
        async with Endpoint(server.url, timeout_s=20) as endpoint:
            stuck = asyncio.create_task(outcome(endpoint, question(user="first")))
            while not server.chats:
                await asyncio.sleep(0.01)
            assert (await endpoint.ask(question(user="second"))).text == "fine"
            stuck.cancel()
            await asyncio.gather(stuck, return_exceptions=True)

    with StandIn(in_turn(stall(), say("fine"))) as server:
        asyncio.run(run(server))


def test_cancelling_under_contention_leaves_the_endpoint_usable() -> None:
    async def run(server: StandIn) -> None:
        async with Endpoint(server.url, timeout_s=20) as endpoint:
            for _ in range(5):
                tasks = [asyncio.create_task(outcome(endpoint, question(user=str(i)))) for i in range(20)]
                await asyncio.sleep(0.02)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            server.script = lambda _: say("fine")
            assert (await endpoint.ask(question())).text == "fine"

    with StandIn(lambda _: after(0.05, say("slow", every_s=0.01))) as server:
        asyncio.run(run(server))


def test_nobody_listens() -> None:
    port = free_port()
    told = ask(None, url=lambda _: f"http://127.0.0.1:{port}", retries=2)
    assert f"nobody answers at http://127.0.0.1:{port}/v1" in told.useless
    assert "connection refused" in told.useless
    assert told.slept == [1.0, 2.0]


def test_a_name_that_nobody_has_is_told_without_numbers() -> None:
    told = ask(None, url=lambda server: "http://nobody.invalid/v1", retries=0)
    assert "nobody answers at http://nobody.invalid/v1" in told.useless and "Errno" not in told.useless


def test_server_that_dies_and_comes_back_is_waited_for() -> None:
    async def run(server: StandIn) -> Reply:
        pauses = iter([lambda: None, server.start])

        async def sleep(_: float) -> None:
            next(pauses)()

        async with Endpoint(server.url, sleep=sleep) as endpoint:
            await endpoint.ask(question())
            server.stop()
            return await endpoint.ask(question())

    with StandIn() as server:
        assert asyncio.run(run(server)).text.startswith("Answer")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_proxy_variables_do_not_break_loopback(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    told = ask(None, url=lambda server: f"http://{host}:{server.port}")
    assert status_of(told.reply) == "ok"


# ── the ladder of JSON modes ─────────────────────────────────────────────────────────────────────────────────────────


def test_json_object_refused_with_a_plain_string_error() -> None:
    told = ask(
        lambda request: error(400, LM_STUDIO_FORMAT) if request.mode == "json_object" else say(ANSWER),
        json_question(mode="json_object"),
    )
    assert told.reply.mode == "text"
    assert "response_format" not in told.bodies[-1]


@pytest.mark.parametrize(
    ("refused", "used"),
    [
        (set(), "json_schema"),
        ({"json_schema"}, "json_object"),
        ({"json_schema", "json_object"}, "text"),
    ],
    ids=["all taken", "schema refused", "both refused"],
)
def test_ladder_is_remembered_for_each_model_and_the_mode_recorded(refused: set[str], used: str) -> None:
    def script(request: Request) -> Action:
        if request.mode in refused:
            return openai_error(400, f"response_format of type {request.mode} is not supported")
        return say(ANSWER, model=request.model)

    told = ask(script, json_question(), json_question(), json_question(model="other"))
    assert [reply.mode for reply in told.results if isinstance(reply, Reply)] == [used] * 3
    assert len(told.chats) == 3 + 2 * len(refused)  # learned once for each of the two models
    assert len(told.notes) == 2 * len(refused)


def test_bad_grammar_steps_down_instead_of_failing() -> None:
    body = {"error": {"code": 500, "message": "Failed to initialize samplers: failed to parse grammar"}}
    told = ask(lambda request: error(500, body) if request.mode else say(ANSWER), json_question())
    assert told.reply.mode == "text"
    assert told.slept == []


def test_schema_silently_ignored_is_left_to_the_caller_to_see() -> None:
    told = ask(lambda _: say("I would give it a four."), json_question())
    assert (told.reply.mode, told.reply.text) == ("json_schema", "I would give it a four.")


def test_prose_is_asked_without_any_mode() -> None:
    told = ask(None)
    assert told.reply.mode is None
    assert "response_format" not in told.bodies[0]


# ── thinking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("content", ["", None], ids=["empty", "null"])
def test_json_stands_in_a_reasoning_field(field: str, content: str | None) -> None:
    fields: dict[str, Any] = {"content": content, field: ANSWER}
    chunk = delta(**fields)
    told = ask(lambda _: stream(chunk, delta(finish="stop"), "[DONE]"), json_question())
    assert json.loads(told.reply.text) == {"score": 4, "red_flag": False}
    assert told.reply.reasoning is None


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_comes_in_a_field_of_its_own(field: str) -> None:
    told = ask(lambda _: say("Four.", reasoning="Let me see.", reasoning_field=field))
    assert (told.reply.text, told.reply.reasoning) == ("Four.", "Let me see.")


@pytest.mark.parametrize(
    ("sent", "text", "reasoning", "status"),
    [
        ("<think>Hm.</think>Four.", "Four.", "Hm.", "ok"),
        ("Hm.</think>\n\nFour.", "Four.", "Hm.", "ok"),
        ("<think>a</think>b</think>Four.", "Four.", "a</think>b", "ok"),
        ("<think>Hm, hm, hm", "", "Hm, hm, hm", "empty"),
    ],
    ids=["closed", "opening missing", "the last closing counts", "unclosed is no answer"],
)
def test_thinking_comes_in_tags(sent: str, text: str, reasoning: str, status: str) -> None:
    told = ask(lambda _: say(sent))
    assert (told.reply.text, told.reply.reasoning, status_of(told.reply)) == (text, reasoning, status)


def test_budget_used_up_by_thinking_is_said_and_not_retried() -> None:
    action = say("", reasoning="Hm. " * 50, finish="length", usage=usage_of(20, 64))
    told = ask(lambda _: action, question(max_tokens=64))
    assert status_of(told.reply) == "empty"
    assert note_of(told.reply) == "budget exhausted: max_tokens 64 used up by thinking"
    assert len(told.chats) == 1


def test_truncated_json_is_truncated_and_not_retried() -> None:
    told = ask(lambda _: say('{"score": 4, "rationale": "aaaa', finish="length"), json_question(max_tokens=9))
    assert status_of(told.reply) == "truncated"
    assert len(told.chats) == 1


def test_whitespace_loop_under_a_grammar_is_empty() -> None:
    told = ask(lambda _: say("\n \t" * 400, finish="length", usage=usage_of(9, 64)), json_question(max_tokens=64))
    assert status_of(told.reply) == "empty"
    assert note_of(told.reply) == "budget exhausted: max_tokens 64 used up without an answer"


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        (None, "", None),
        ([{"type": "text", "text": "Four."}], "Four.", None),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Four."}],
            "Four.",
            "Hm.",
        ),
    ],
    ids=["null", "parts", "thinking parts"],
)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])
def test_content_is_null_or_a_list_of_parts(content: Any, text: str, reasoning: str | None, streamed: bool) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": "stop"}]}
    told = ask(lambda _: stream(chunk, "[DONE]") if streamed else say_plain(content))
    assert (told.reply.text, told.reply.reasoning) == (text, reasoning)


def test_server_that_ignores_stream_is_read_as_well() -> None:
    told = ask(lambda _: say_plain("Four.", reasoning_content="Hm."))
    assert (told.reply.text, told.reply.reasoning, told.reply.finish_reason) == ("Four.", "Hm.", "stop")
    assert told.reply.metrics.ttft_s is None
    assert told.reply.metrics.prompt_tokens == 12


@pytest.mark.parametrize(
    "body",
    [
        {"error": "no such thing"},
        {"error": {"message": "no such thing"}},
        [{"error": {"message": "no such thing", "status": "INVALID_ARGUMENT"}}],
        {"object": "error", "message": {"detail": [{"loc": ["body"], "msg": "no such thing"}]}},
        {"detail": "no such thing"},
        "no such thing",
    ],
    ids=["string", "object", "list", "nested", "detail", "text"],
)
def test_errors_come_in_every_shape(body: object) -> None:
    told = ask(lambda _: error(400, body))
    assert told.failure.kind == "permanent"
    assert "no such thing" in str(told.failure)
    assert len(told.chats) == 1


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────────────

FLAT_OVERFLOW = {
    "object": "error",
    "message": "This model's maximum context length is 2048 tokens. However, you requested 20031 tokens (19007 in the "
    "messages, 1024 in the completion). Please reduce the length of the messages or completion.",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
STUDIO_OVERFLOW = {
    "error": "Trying to keep the first 20031 tokens when context the overflows. However, the model is loaded with "
    "context length of only 2048 tokens, which is not enough. Try to load the model with a larger context length"
}


@pytest.mark.parametrize(
    "action",
    [
        error(400, OVERFLOW),
        error(400, FLAT_OVERFLOW),
        error(400, STUDIO_OVERFLOW),
        plain(OVERFLOW),
        stream(OVERFLOW),
        stream(delta(role="assistant"), STUDIO_OVERFLOW),
    ],
    ids=["400", "flat 400", "LM Studio", "200 with an error", "stream with an error", "error after the first chunk"],
)
def test_context_overflow_is_permanent_and_named_with_the_sizes(action: Action) -> None:
    told = ask(lambda _: action)
    assert told.failure.kind == "context"
    assert (told.failure.n_prompt, told.failure.n_ctx) == (20031, 2048)
    assert "20031 tokens" in str(told.failure)
    assert "2048 tokens" in str(told.failure)
    assert len(told.chats) == 1
    assert not told.failure.fatal


LONG = " ".join(f"word{i}" for i in range(3_000))


@pytest.mark.parametrize(
    "action",
    [
        stream(finished=True),
        stream("[DONE]"),
        stream(delta(role="assistant"), delta(finish="stop"), "[DONE]"),
        say("I am a helpful assistant.", usage=usage_of(2_000, 6)),
    ],
    ids=["nothing at all", "only [DONE]", "no text", "prompt silently cut"],
)
def test_context_overflow_behind_a_200_is_found_out(action: Action) -> None:
    told = ask(in_turn(action, then=Brain(n_ctx=2048)), question(user=LONG))
    assert told.failure.kind == "context"
    assert told.failure.n_ctx == 2048
    assert len(told.chats) == 1


def test_prompt_silently_cut_is_warned_of_when_nobody_tells_the_context() -> None:
    """Once, however many prompts of whatever length are cut."""
    told = ask(
        lambda request: say("Hm.", usage=usage_of(2_000, 6)) if request.is_chat else error(404, ""),
        question(user=LONG),
        question(user=LONG + LONG),
    )
    assert told.reply.text == "Hm."
    assert len(told.notes) == 1
    assert "only a part of long prompts (2000 of at least 3000 tokens)" in told.notes[0]


def test_silence_over_a_short_prompt_is_retried() -> None:
    told = ask(in_turn(stream(finished=True), say("fine")))
    assert told.reply.text == "fine"
    assert told.slept == [1.0]


# ── refused fields ───────────────────────────────────────────────────────────────────────────────────────────────────

MAX_TOKENS_REFUSED = openai_error(
    400,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    type="invalid_request_error",
    param="max_tokens",
    code="unsupported_parameter",
)
TEMPERATURE_REFUSED = openai_error(
    400,
    "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.",
    type="invalid_request_error",
    param="temperature",
    code="unsupported_value",
)
EXTRA_FORBIDDEN = {
    "object": "error",
    "message": {
        "detail": [
            {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}
        ]
    },
    "type": "invalid_request_error",
}


@pytest.mark.parametrize(
    ("field", "refusal", "instead"),
    [
        ("max_tokens", MAX_TOKENS_REFUSED, {"max_completion_tokens": 77}),
        ("temperature", TEMPERATURE_REFUSED, {}),
        ("stream_options", error(422, EXTRA_FORBIDDEN), {}),
        ("seed", error(400, {"error": "Unrecognized request argument supplied: seed"}), {}),
    ],
    ids=["max_tokens", "temperature", "stream_options", "seed"],
)
def test_refused_field_is_swapped_or_dropped_once_and_remembered(
    field: str, refusal: Action, instead: dict[str, Any]
) -> None:
    told = ask(
        lambda request: refusal if field in request.json else say("fine"),
        question(max_tokens=77, seed=3),
        question(max_tokens=77, seed=3, user="again"),
    )
    assert told.reply.text == "fine"
    assert [field in body for body in told.bodies] == [True, False, False]
    assert instead.items() <= told.bodies[-1].items()
    assert len(told.notes) == 1


def test_several_refused_fields_are_found_one_after_the_other() -> None:
    def script(request: Request) -> Action:
        if "max_tokens" in request.json:
            return MAX_TOKENS_REFUSED
        return TEMPERATURE_REFUSED if "temperature" in request.json else say("fine")

    assert ask(script).reply.text == "fine"


def test_field_that_stays_refused_is_a_failure_not_a_loop() -> None:
    told = ask(lambda _: MAX_TOKENS_REFUSED)
    assert told.failure.kind == "refused_field"
    assert told.failure.field == "max_tokens"
    assert len(told.chats) == 2


def test_field_that_the_user_set_by_name_is_not_dropped() -> None:
    told = ask(lambda _: TEMPERATURE_REFUSED, question(extra={"temperature": 0.7}))
    assert told.failure.field == "temperature"
    assert len(told.chats) == 1


@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_system_role_refused_is_merged_into_the_user_turn_once(message: str, status: int) -> None:
    told = ask(
        lambda request: openai_error(status, message) if request.text_of("system") else say("fine"),
        question(system="Be brief.", user="Why?"),
        question(system="Be brief.", user="And now?"),
    )
    assert told.reply.text == "fine"
    assert [len(body["messages"]) for body in told.bodies] == [2, 1, 1]
    assert told.bodies[1]["messages"] == [{"role": "user", "content": "Be brief.\n\nWhy?"}]


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_loading_model_is_polled_beyond_the_retries() -> None:
    told = ask(in_turn(*[error(503, LOADING)] * 7, say("fine")), retries=1)
    assert told.reply.text == "fine"
    assert told.slept == [1, 2, 3, 4, 5, 5, 5]
    assert told.notes == ["stand-in is being loaded; waiting"]


def test_model_that_never_loads_ends_with_the_wall_clock() -> None:
    told = ask(lambda _: error(503, LOADING), timeout_s=0.3, sleep=asyncio.sleep)
    assert told.failure.kind == "timeout"
    assert "still being loaded after 0.3 s" in str(told.failure)


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Retry-After": format_datetime(datetime.fromtimestamp(1_000_030, UTC), usegmt=True)}, 30.0),
        ({}, 1.0),
        ({"Retry-After": "soon"}, 1.0),
    ],
    ids=["seconds", "fraction", "milliseconds", "date", "none", "nonsense"],
)
def test_rate_limit_is_obeyed(headers: dict[str, str], waited: float) -> None:
    limited = error(429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, headers)
    told = ask(in_turn(limited, say("fine")), epoch=lambda: 1_000_000.0)
    assert told.reply.text == "fine"
    assert told.slept == [waited]


def test_rate_limit_of_gemini_stands_in_the_body() -> None:
    body = [{"error": {"code": 429, "message": "Slow down", "details": [{"retryDelay": "34s"}]}}]
    assert ask(in_turn(error(429, body), say("fine"))).slept == [34.0]


def test_wait_of_more_than_two_minutes_is_not_sat_out() -> None:
    told = ask(lambda _: error(429, "later", {"Retry-After": "3600"}))
    assert told.failure.kind == "retryable"
    assert told.failure.retry_after_s == 3600
    assert told.slept == []


def test_polite_waiting_does_not_use_up_the_time_of_the_answer() -> None:
    limited = error(429, "later", {"Retry-After": "1.2"})
    told = ask(in_turn(limited, say("fine")), timeout_s=1.0, sleep=asyncio.sleep)
    assert told.reply.text == "fine"


def test_used_up_quota_stops_everything() -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    told = ask(lambda _: error(429, body, {"Retry-After": "1"}))
    assert "quota" in told.useless
    assert len(told.chats) == 1


@pytest.mark.parametrize(
    "message",
    [
        "model requires more system memory (8.7 GiB) than is available (5.0 GiB)",
        "llama runner process has terminated: cudaMalloc failed: out of memory",
    ],
)
def test_permanent_500_is_not_retried(message: str) -> None:
    told = ask(lambda _: openai_error(500, message))
    assert told.failure.kind == "machine"
    assert message in str(told.failure)
    assert len(told.chats) == 1


def test_passing_500_is_retried_a_few_times() -> None:
    told = ask(lambda _: openai_error(500, "something went wrong"))
    assert told.failure.kind == "retryable"
    assert told.slept == [1.0, 2.0, 4.0]


# ── streams that end badly ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "action",
    [
        say("half an ans", finish=None, done=False),
        break_off("half an ans"),
        break_off("half an ans", end="close"),
    ],
    ids=["ends without finish_reason", "reset", "closed"],
)
def test_stream_without_an_end_is_a_failure_and_no_answer(action: Action) -> None:
    told = ask(lambda _: action, retries=1)
    assert told.failure.kind == "stream"
    assert "broke off after 11 characters" in str(told.failure)
    assert len(told.chats) == 2


def test_stream_that_breaks_behind_its_finish_reason_is_an_answer() -> None:
    action = stream(delta("whole"), delta(finish="stop"), finished=False, end="reset")
    assert ask(lambda _: action).reply.text == "whole"


def test_done_without_a_finish_reason_is_an_answer() -> None:
    told = ask(lambda _: say("whole", finish=None))
    assert (told.reply.text, told.reply.finish_reason) == ("whole", None)


def test_comments_do_not_hold_off_the_wall_clock() -> None:
    told = ask(lambda _: trickle_comments(), timeout_s=0.4)
    assert told.failure.kind == "timeout"
    assert "no first token within 0.4 s" in str(told.failure)
    assert len(told.chats) == 1


def test_first_token_has_a_limit_of_its_own() -> None:
    slow = ask(lambda _: trickle_comments(), first_token_s=0.3)
    assert "no first token within 0.3 s" in str(slow.failure)
    steady = ask(lambda _: say("a" * 96, every_s=0.15), first_token_s=1.0)
    assert steady.reply.text == "a" * 96


def test_total_has_a_limit_while_tokens_trickle() -> None:
    told = ask(lambda _: say("a" * 400, every_s=0.05), timeout_s=1.0)
    assert told.failure.kind == "timeout"
    assert "characters so far" in str(told.failure)


def test_stall_in_the_middle_ends_with_the_wall_clock() -> None:
    told = ask(lambda _: stall("some text"), timeout_s=1.0)
    assert "9 characters so far" in str(told.failure)


# ── models, keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_model_that_answers_is_warned_of_once() -> None:
    told = ask(lambda _: say("fine", model="some-other-model"), *[question(user=str(i)) for i in range(3)])
    assert told.reply.model == "some-other-model"
    assert told.notes == ["asked for the model stand-in, but some-other-model answers"]


@pytest.mark.parametrize("told_name", ["stand-in", "stand-in-2026-01-31", "models/Stand-In.gguf", "stand-in:latest"])
def test_the_same_model_by_a_longer_name_is_no_warning(told_name: str) -> None:
    assert ask(lambda _: say("fine", model=told_name)).notes == []


@pytest.mark.parametrize(
    "key",
    ["secret-key-1", " secret-key-1\n", "“secret-key-1”", '"secret-key-1"\r\n'],
    ids=["bare", "newline", "smart", "quoted"],
)
def test_key_is_stripped_of_what_pasting_adds(key: str) -> None:
    told = ask(None, api_key=key)
    assert told.chats[0].headers["authorization"] == "Bearer secret-key-1"


@pytest.mark.parametrize("key", [None, "", "  \n"])
def test_without_a_key_the_header_is_left_out(key: str | None) -> None:
    assert "authorization" not in ask(None, api_key=key).chats[0].headers


def test_wrong_key_is_named_with_the_next_step() -> None:
    told = ask(lambda _: openai_error(401, "Invalid API Key", code=401), api_key="wrong-key-1")
    assert "does not accept the API key" in told.useless
    assert "api_key_env" in told.useless
    assert len(told.chats) == 1


def test_missing_key_is_named_with_the_next_step() -> None:
    told = ask(lambda _: error(401, {"error": "Unauthorized"}))
    assert "wants an API key" in told.useless


def test_unknown_model_names_those_that_are_there() -> None:
    refusal = openai_error(404, "model 'stand-in' not found, try pulling it first", type="not_found_error")
    told = ask(in_turn(refusal, then=Brain(models=("qwen3-8b", "gemma-3"))))
    assert "has no model 'stand-in'" in told.useless
    assert "it has: qwen3-8b, gemma-3" in told.useless


def test_cached_tokens_are_recorded() -> None:
    told = ask(lambda _: say("fine", usage=usage_of(100, 5, cached=80)), question(seed=7))
    assert told.reply.metrics.cached_tokens == 80
    assert told.bodies[0]["seed"] == 7


def test_unknown_path_is_the_address_not_the_model() -> None:
    told = ask(routes({"/v1/chat/completions": error(404, {"detail": "Not Found"})}))
    assert "is no chat endpoint" in told.useless


def test_questions_may_run_side_by_side() -> None:
    async def run(server: StandIn) -> list[object]:
        async with Endpoint(server.url) as endpoint:
            return list(await asyncio.gather(*(endpoint.ask(ChatRequest("m", str(i))) for i in range(50))))

    with StandIn(Brain(delay_s=0.05)) as server:
        replies = asyncio.run(run(server))
        texts = {reply.text for reply in replies if isinstance(reply, Reply)}
        assert len(texts) == 50
        assert texts == {server.script.text_for(request.json) for request in server.chats}  # type: ignore[attr-defined]
