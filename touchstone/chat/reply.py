"""What came back, and what it is worth. Pure.

Thinking is separated from the answer in whichever of the known ways it came: a field of its own (`reasoning_content`
or `reasoning`), or tags in the text, of which the opening one may be missing and the closing one may never come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from touchstone.chat.lenient import NotJson, loads
from touchstone.contracts.lines import Metrics, Mode
from touchstone.jsonsource import clean_text

OPENING: Final = "<think>"
CLOSING: Final = "</think>"

Status = Literal["ok", "truncated", "empty"]

_FINISHES: Final = {"max_tokens": "length", "model_length": "length"}
"""Other servers' words for `length`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model. Its text can be stored as it is: no NUL, no lone surrogates."""

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    model: str | None = None
    """As the server says, which may differ from what was asked for."""
    metrics: Metrics = field(default_factory=Metrics)
    mode: Mode | None = None
    """How JSON was really asked for; None where prose was."""
    max_tokens: int | None = None
    """The budget that the answer had."""


def split_thinking(text: str) -> tuple[str, str | None]:
    """(answer, thinking) of a text that may hold `<think>` tags; an unclosed one leaves no answer."""
    if CLOSING in text:
        thinking, _, answer = text.rpartition(CLOSING)
        return answer.strip(), thinking.strip().removeprefix(OPENING).strip() or None
    if text.lstrip().startswith(OPENING):
        return "", text.strip().removeprefix(OPENING).strip() or None
    return text, None


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    return text


def _is_json_object(text: str) -> bool:
    text = _unfenced(text)
    if not text.startswith("{"):
        return False
    try:
        return isinstance(loads(text.encode("utf-8", "replace")), dict)
    except NotJson:
        return False


def _joined(one: str | None, other: str | None) -> str | None:
    return "\n".join(part for part in (one, other) if part) or None


def shaped(text: str, reasoning: str, *, wants_json: bool) -> tuple[str, str | None]:
    """(answer, thinking) from the two streams of a reply.

    Some servers file the constrained JSON of a thinking model under reasoning and leave the content empty; where JSON
    was asked for and the thinking is nothing but an object, it is the answer.
    """
    answer, tagged = split_thinking(text)
    thinking = _joined(reasoning.strip(), tagged)
    if wants_json and thinking and not answer.strip():
        last = split_thinking(thinking)[0] if CLOSING in thinking else thinking
        if _is_json_object(last):
            rest = thinking.removesuffix(last).strip().removesuffix(CLOSING).strip()
            return clean_text(last), clean_text(rest) or None
    return clean_text(answer), None if thinking is None else clean_text(thinking)


def finish_of(value: object) -> str | None:
    """The reason for the end in OpenAI's words; None where none was given."""
    if not isinstance(value, str) or not value:
        return None
    name = clean_text(value[:100]).lower()
    return _FINISHES.get(name, name)


def status_of(reply: Reply) -> Status:
    """`empty` without an answer, `truncated` where the server cut it off, else `ok`."""
    if not reply.text.strip():
        return "empty"
    return "truncated" if reply.finish_reason in ("length", "content_filter") else "ok"


def cut_by_context(reply: Reply) -> bool:
    """Whether an answer that was cut off ended before its own budget did, so that the context must have been full."""
    used = reply.metrics.completion_tokens
    return used is not None and reply.max_tokens is not None and used < reply.max_tokens


def note_of(reply: Reply) -> str | None:
    """Why this reply is not `ok`, in a few plain words; None where it is."""
    status = status_of(reply)
    if status == "ok":
        return None
    if reply.finish_reason == "content_filter":
        return "withheld by the server's content filter"
    budget = "max_tokens" if reply.max_tokens is None else f"max_tokens {reply.max_tokens}"
    if reply.finish_reason == "length" and cut_by_context(reply):
        return f"context exhausted after {reply.metrics.completion_tokens} tokens, before {budget}"
    if status == "truncated":
        return f"cut off at {budget}"
    if reply.finish_reason == "length":
        return f"budget exhausted: {budget} used up " + ("by thinking" if reply.reasoning else "without an answer")
    return "only thinking, no answer" if reply.reasoning else "the model said nothing"


_SUFFIX = re.compile(r"(?:[:@.].*|[-_](?:\d|i?q\d|b?f\d\d|fp\d|gguf|mlx|awq|gptq|latest).*)?", re.DOTALL)
"""What may stand behind a model's name without making it another model: a tag, a version, a quantisation."""


def same_model(asked: str, told: str | None) -> bool:
    """Whether the model that answered may be the one asked for.

    Folders, `.gguf`, case, a tag, a date and a quantisation behind the name make no difference
    (`gpt-x` and `gpt-x-2024-08-06`); another size does (`gpt-x-mini`).
    """
    if not told:
        return True
    one, other = sorted((_bare(asked), _bare(told)), key=len)
    return other.startswith(one) and _SUFFIX.fullmatch(other[len(one) :]) is not None


def _bare(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2].casefold().removesuffix(".gguf")
