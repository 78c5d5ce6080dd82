"""Thinking apart from answering, and what a reply is worth."""

from __future__ import annotations

from typing import Any

import pytest

from touchstone.chat.reply import Reply, finish_of, note_of, same_model, shaped, split_thinking, status_of
from touchstone.contracts.lines import Metrics


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("plain", "plain", None),
        ("  kept  ", "  kept  ", None),
        ("<think>a</think>b", "b", "a"),
        ("\n<think>\na\n</think>\n\nb\n", "b", "a"),
        ("a</think>b", "b", "a"),
        ("<think></think>b", "b", None),
        ("<think>a", "", "a"),
        ("<think>", "", None),
        ("<think>a</think>", "", "a"),
        ("<think>a</think>b<think>c</think>d", "d", "a</think>b<think>c"),
        ("the tag <think> is literal", "the tag <think> is literal", None),
    ],
)
def test_split_thinking(text: str, answer: str, thinking: str | None) -> None:
    assert split_thinking(text) == (answer, thinking)


@pytest.mark.parametrize(
    ("text", "reasoning", "expected"),
    [
        ("", '{"a": 1}', ('{"a": 1}', None)),
        ("", '```json\n{"a": 1}\n```', ('```json\n{"a": 1}\n```', None)),
        ("", 'Hm.</think>{"a": 1}', ('{"a": 1}', "Hm.")),
        ("", 'Perhaps {"a": 1}', ("", 'Perhaps {"a": 1}')),
        ("", '{"a": 1', ("", '{"a": 1')),
        ("", "[1]", ("", "[1]")),
        ("four", '{"a": 1}', ("four", '{"a": 1}')),
        ("<think>b</think>four", "a", ("four", "a\nb")),
        ('<think>{"a": 1}', "", ('{"a": 1}', None)),
    ],
    ids=["object", "fenced", "behind a tag", "within prose", "broken", "list", "answer wins", "both", "unclosed tag"],
)
def test_json_filed_under_thinking(text: str, reasoning: str, expected: tuple[str, str | None]) -> None:
    assert shaped(text, reasoning, wants_json=True) == expected


def test_json_filed_under_thinking_stays_there_when_prose_was_asked_for() -> None:
    assert shaped("", '{"a": 1}', wants_json=False) == ("", '{"a": 1}')


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("", None),
        (3, None),
    ],
)
def test_finish_of(value: object, name: str | None) -> None:
    assert finish_of(value) == name


def reply(**changes: Any) -> Reply:
    tokens = changes.pop("tokens", None)
    return Reply(**{"text": "", "metrics": Metrics(completion_tokens=tokens), "max_tokens": 64, **changes})


@pytest.mark.parametrize(
    ("value", "status", "note"),
    [
        (reply(text="a", finish_reason="stop"), "ok", None),
        (reply(text="a"), "ok", None),
        (reply(text="a", finish_reason="length"), "truncated", "cut off at max_tokens 64"),
        (reply(text="a", finish_reason="length", tokens=64), "truncated", "cut off at max_tokens 64"),
        (reply(text="a", finish_reason="length", tokens=9), "truncated",
         "context exhausted after 9 tokens, before max_tokens 64"),
        (reply(text="a", finish_reason="content_filter"), "truncated", "withheld by the server's content filter"),
        (reply(finish_reason="content_filter"), "empty", "withheld by the server's content filter"),
        (reply(finish_reason="length", reasoning="a"), "empty", "budget exhausted: max_tokens 64 used up by thinking"),
        (reply(finish_reason="length"), "empty", "budget exhausted: max_tokens 64 used up without an answer"),
        (reply(finish_reason="length", max_tokens=None), "empty",
         "budget exhausted: max_tokens used up without an answer"),
        (reply(finish_reason="stop", reasoning="a"), "empty", "only thinking, no answer"),
        (reply(finish_reason="stop", text=" \n"), "empty", "the model said nothing"),
    ],
)  # fmt: skip
def test_status_and_note(value: Reply, status: str, note: str | None) -> None:
    assert (status_of(value), note_of(value)) == (status, note)


@pytest.mark.parametrize(
    ("asked", "told", "same"),
    [
        ("qwen3-8b", None, True),
        ("qwen3-8b", "", True),
        ("qwen3-8b", "qwen3-8b", True),
        ("qwen3-8b", "Qwen3-8B", True),
        ("qwen3-8b", "/models/Qwen3-8B-Q4_K_M.gguf", True),
        ("qwen3-8b", r"C:\models\qwen3-8b.gguf", True),
        ("gpt-x", "gpt-x-2024-08-06", True),
        ("llama3", "llama3:latest", True),
        ("qwen/qwen3-8b", "qwen3-8b@4bit", True),
        ("gpt-x", "gpt-x-mini", False),
        ("qwen3-8b", "qwen3-8bx", False),
        ("qwen3-8b", "gemma-3-4b", False),
    ],
)
def test_same_model(asked: str, told: str | None, same: bool) -> None:
    assert same_model(asked, told) is same
