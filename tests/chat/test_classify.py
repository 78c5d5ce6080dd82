"""Recorded and known error bodies, and what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from touchstone.chat.failure import ChatFailure
from touchstone.chat.wire import classify, retry_after


def seen(status: int, body: Any, headers: dict[str, str] | None = None, now: float | None = None) -> ChatFailure:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return classify(status, headers or {}, raw, now=now)


def wrapped(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


CASES: list[tuple[str, int, Any, str]] = [
    ("llama.cpp: wrong key", 401, wrapped("Invalid API Key", type="authentication_error", code=401), "key"),
    ("OpenAI: wrong key", 401, wrapped("Incorrect API key provided: sk-ab**yz.", code="invalid_api_key"), "key"),
    ("vLLM: no key", 401, {"error": "Unauthorized"}, "key"),
    ("Gemini: wrong key", 400, [wrapped("API key not valid. Please pass a valid API key.", code=400)], "key"),
    ("forbidden", 403, wrapped("Country, region, or territory not supported"), "key"),
    ("OpenRouter: moderated", 403, wrapped("Your chosen model requires moderation and input was flagged"), "permanent"),
    ("OpenAI: quota", 429, wrapped("You exceeded your current quota", code="insufficient_quota"), "quota"),
    ("DeepSeek: balance", 402, wrapped("Insufficient Balance"), "quota"),
    ("Gemini: rate", 429, [wrapped("You exceeded your current quota", status="RESOURCE_EXHAUSTED")], "retryable"),
    ("llama.cpp: loading", 503, wrapped("Loading model", type="unavailable_error", code=503), "loading"),
    ("Ollama: busy", 503, wrapped("server busy, please try again.  maximum pending requests exceeded"), "retryable"),
    ("llama.cpp: overflow", 400, wrapped("exceeds", type="exceed_context_size_error", n_ctx=2048), "context"),
    ("llama.cpp: full while writing", 500, wrapped("Context size has been exceeded.", code=500), "context"),
    ("OpenAI: overflow", 400, wrapped("too many", code="context_length_exceeded", param="messages"), "context"),
    (
        "vLLM: budget too large",
        400,
        wrapped(
            "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is "
            "4096 tokens and your request has 20 input tokens (5000 > 4096 - 20)."
        ),
        "context",
    ),
    ("Anthropic: overflow", 400, wrapped("prompt is too long: 205000 tokens > 200000 maximum"), "context"),
    (
        "Gemini: overflow",
        400,
        [wrapped("The input token count (9) exceeds the maximum number of tokens allowed (8).")],
        "context",
    ),
    ("too large a body", 413, "", "context"),
    ("Groq: larger than the rate limit", 413, wrapped("Request too large for model on tokens per minute"), "permanent"),
    (
        "OpenAI: larger than the rate limit",
        429,
        wrapped("Request too large for gpt: Limit 3, Requested 4"),
        "permanent",
    ),
    (
        "OpenAI: answer budget",
        400,
        wrapped(
            "max_tokens is too large: 99. This model supports at most 9 completion tokens",
            param="max_tokens",
            code="invalid_value",
        ),
        "permanent",
    ),
    (
        "LM Studio: json_object",
        400,
        {"error": "'response_format.type' must be 'json_schema' or 'text'"},
        "refused_field",
    ),
    ("DeepSeek: json_schema", 400, wrapped("This response_format type is unavailable now"), "refused_field"),
    (
        "OpenAI: word json",
        400,
        wrapped(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            param="messages",
        ),
        "refused_field",
    ),
    (
        "llama.cpp: schema",
        400,
        wrapped('JSON schema conversion failed: Unrecognized schema: {"not":{}}'),
        "refused_field",
    ),
    ("llama.cpp: grammar", 500, wrapped("failed to parse grammar", code=500), "refused_field"),
    ("Groq: schema missed", 400, wrapped("Failed to generate JSON.", code="json_validate_failed"), "retryable"),
    (
        "OpenAI: unknown model",
        404,
        wrapped("The model `x` does not exist or you do not have access to it.", code="model_not_found"),
        "model",
    ),
    (
        "Ollama: unknown model",
        404,
        wrapped('model "x" not found, try pulling it first', type="not_found_error"),
        "model",
    ),
    ("vLLM: unknown model", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, "model"),
    ("LM Studio: unknown model", 400, wrapped('Invalid model identifier "x".', param="model"), "model"),
    ("LM Studio: none loaded", 404, wrapped("No models loaded. Please load a model in the developer page"), "model"),
    (
        "Mistral: unknown model",
        400,
        {"object": "error", "message": "Invalid model: x", "type": "invalid_model"},
        "model",
    ),
    ("OpenRouter: unknown model", 400, wrapped("x is not a valid model ID"), "model"),
    ("Gemini: unknown model", 404, [wrapped("models/x is not found for API version v1main")], "model"),
    ("DeepSeek: unknown model", 400, wrapped("Model Not Exist"), "model"),
    ("llama-swap: unknown model", 404, "could not find suitable inference handler for x", "model"),
    ("FastAPI: no route", 404, {"detail": "Not Found"}, "address"),
    ("llama.cpp: no route", 404, wrapped("File Not Found", type="not_found_error", code=404), "address"),
    ("Go: no route", 404, "404 page not found", "address"),
    ("method not allowed", 405, "", "address"),
    ("redirect", 308, "", "address"),
    (
        "Ollama: memory",
        500,
        wrapped("model requires more system memory (8.7 GiB) than is available (5.0 GiB)"),
        "machine",
    ),
    ("LM Studio: memory", 400, wrapped('Failed to load model "x". Error: insufficient system resources'), "machine"),
    ("Ollama: crash", 500, wrapped("llama runner process has terminated: exit status 2"), "machine"),
    ("malformed", 400, wrapped("[json.exception.parse_error.101] parse error", code=400), "permanent"),
    ("unclear 500", 500, "", "retryable"),
    ("gateway", 502, "<html><head><title>502 Bad Gateway</title></head></html>", "retryable"),
    ("Cloudflare", 524, "<!DOCTYPE html><title>A timeout occurred</title>", "retryable"),
    ("not implemented", 501, "", "permanent"),
    ("teapot", 418, "", "permanent"),
    ("error within a 200, with number", 200, wrapped("Provider returned error", code=502), "retryable"),
    (
        "error within a 200, without",
        200,
        {"error": "The model has crashed without additional information."},
        "retryable",
    ),
    ("unknown model within a 200", 200, {"error": "model 'x' not found"}, "model"),
]


@pytest.mark.parametrize(("status", "body", "kind"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_kind(status: int, body: Any, kind: str) -> None:
    failure = seen(status, body)
    assert failure.kind == kind
    assert failure.fatal == (kind in ("key", "model", "quota", "address"))
    assert str(failure).isprintable()
    assert str(failure)


@pytest.mark.parametrize(
    ("message", "fields", "field"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
            {"param": "max_tokens"},
            "max_tokens",
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
            {},
            "max_tokens",
        ),
        ("Unsupported value: 'temperature' does not support 0.2", {"param": "temperature"}, "temperature"),
        ("`temperature` is deprecated for this model.", {}, "temperature"),
        ('Invalid JSON payload received. Unknown name "seed": Cannot find field.', {}, "seed"),
        ("stream_options is not allowed", {}, "stream_options"),
        (
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            {"param": "messages[0].role"},
            "system",
        ),
        ("System role not supported", {}, "system"),
        ("only user and assistant roles are supported", {}, None),
    ],
)
def test_refused_field(message: str, fields: dict[str, Any], field: str | None) -> None:
    assert seen(400, wrapped(message, **fields)).field == field


def test_refused_field_in_a_message_that_is_json_inside_a_string() -> None:
    detail = {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
    failure = seen(422, {"object": "error", "message": json.dumps(detail), "type": "internal_error_proxy"})
    assert failure.field == "seed"


@pytest.mark.parametrize(
    ("message", "n_prompt", "n_ctx"),
    [
        ("request (20031 tokens) exceeds the available context size (2048 tokens), try increasing it", 20031, 2048),
        ("maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.", 5000, 4097),
        (
            "keep the first 14538 tokens when context the overflows. However, loaded with context length of only 2048",
            14538,
            2048,
        ),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1200000, 1048576),
        ("prompt is too long: 205000 tokens > 200000 maximum", 205000, 200000),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 5000, 4096),
        ("input length exceeds the context length", None, None),
    ],
)
def test_sizes_of_an_overflow_out_of_its_words(message: str, n_prompt: int | None, n_ctx: int | None) -> None:
    failure = seen(400, wrapped(message))
    assert (failure.kind, failure.n_prompt, failure.n_ctx) == ("context", n_prompt, n_ctx)
    for size in (n_prompt, n_ctx):
        assert size is None or f"{size} tokens" in str(failure)


def test_overflow_without_sizes_repeats_the_servers_words() -> None:
    assert "input length exceeds" in str(seen(400, wrapped("input length exceeds the context length")))


@pytest.mark.parametrize(
    ("headers", "now", "seconds"),
    [
        ({}, 0.0, None),
        ({"retry-after": "20"}, None, 20.0),
        ({"retry-after": "1.5"}, None, 1.5),
        ({"retry-after-ms": "250"}, None, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 0.0, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 100.0, 0.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, None, None),
        ({"retry-after": "-5"}, 0.0, None),
        ({"retry-after": "9" * 400}, 0.0, None),
        ({"retry-after": "next week"}, 0.0, None),
        ({"retry-after": "Mon, 99 Foo 99999 99:99:99 GMT"}, 0.0, None),
    ],
)
def test_retry_after(headers: dict[str, str], now: float | None, seconds: float | None) -> None:
    assert retry_after(headers, now) == seconds


def test_page_is_told_by_its_title() -> None:
    assert str(seen(502, "<html><head><title>Bad\n Gateway</title></head><body>x</body></html>")).endswith(
        "Bad Gateway"
    )
