"""The body of an error, whatever its shape, as one `Told`. Pure.

Seen in the wild: `{"error": {"message": …}}` (OpenAI, llama.cpp, Ollama), `{"error": "…"}` (LM Studio, vLLM's
401), `{"object": "error", "message": …}` (older vLLM), `[{"error": …}]` (Gemini), `{"detail": …}` (FastAPI), a
message that is an object, a list or JSON inside a string (Mistral), a web page (gateways), plain text, nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from touchstone.chat.lenient import NotJson, as_count, as_dict, as_text, loads, one_line

Hide = Callable[[str], str]
"""Takes the secrets out of a text of the server's."""

_LOOKED_AT: Final = 8_000
"""Characters of a message that are looked at."""

_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,500}>")

_CONTEXT_SIZES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context (?:length|size|window) (?:is|of)(?: only)? (\d+)",
        r"context size \((\d+)",
        r"maximum number of tokens allowed \((\d+)",
        r"> (\d+) maximum",
        r"maximum (?:model|context) length of (\d+)",
    )
)
_PROMPT_SIZES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"request \((\d+) tokens",
        r"messages resulted in (\d+)",
        r"you requested (\d+) tokens",
        r"(?:has|contains|with at least) (\d+) input tokens",
        r"input token count (?:of )?\(?(\d+)",
        r"too long: (\d+) tokens",
        r"keep the first (\d+) tokens",
        r"prompt \(length (\d+)",
    )
)


@dataclass(frozen=True, slots=True)
class Told:
    """What a server says about an error. `text` is for people, `marks` for patterns."""

    text: str = ""
    """One line without secrets, at most 300 characters; empty where nothing was said."""
    marks: str = ""
    """Message, code, type, status and parameter in one lower-case line."""
    codes: frozenset[str] = frozenset()
    """Values of `code`, `type` and `status`, lower case."""
    param: str = ""
    number: int | None = None
    """A `code` that is an HTTP status."""
    n_ctx: int | None = None
    n_prompt: int | None = None
    retry_delay_s: float | None = None
    is_page: bool = False
    """The body is HTML."""


def _innermost(value: Any) -> dict[str, Any]:
    """The object that holds the message, out of the wrappings; a bare text becomes a message."""
    for _ in range(4):
        if isinstance(value, list) and len(value) == 1 and "msg" not in as_dict(value[0]):
            value = value[0]
        elif isinstance(value, dict) and value.get("error"):
            value = value["error"]
        else:
            break
    return value if isinstance(value, dict) else {"message": value}


def _sentences(value: Any, depth: int = 0) -> Iterator[str]:
    """The human words in a message of any shape. Never `input`: that is our own prompt, echoed."""
    if depth > 8:
        return
    if isinstance(value, str):
        if value.lstrip().startswith(("{", "[")):
            try:
                yield from _sentences(loads(value.encode("utf-8", "replace")), depth + 1)
                return
            except NotJson:
                pass
        yield value
    elif isinstance(value, list):
        for item in value[:5]:
            yield from _sentences(item, depth + 1)
    elif isinstance(value, dict):
        if isinstance(where := value.get("loc"), list):
            yield ".".join(str(part) for part in where[:5])
        for name in ("type", "msg", "message", "detail", "error", "raw") if depth else ("message", "detail", "msg"):
            yield from _sentences(value.get(name), depth + 1)


def _first_number(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        if found := pattern.search(text):
            return int(found[1][:15])
    return None


def _delay(details: Any) -> float | None:
    """Gemini's `details: [{"retryDelay": "34s"}]`, in seconds."""
    for item in details if isinstance(details, list) else []:
        delay = as_text(as_dict(item).get("retryDelay"))
        if delay and (found := re.fullmatch(r"(\d{1,6}(?:\.\d+)?)s", delay)):
            return float(found[1])
    return None


def _plain(raw: bytes, hide: Hide) -> Told:
    text = raw.decode("utf-8", "replace")
    is_page = text.lstrip()[:200].lower().startswith(("<!doctype", "<html"))
    if is_page:
        title = _TITLE.search(text[:_LOOKED_AT])
        text = title[1] if title else _TAG.sub(" ", text[:_LOOKED_AT])
    text = one_line(hide(text[:_LOOKED_AT]))
    return Told(text, text.lower(), is_page=is_page)


def read_error(raw: bytes, hide: Hide) -> Told:
    """Any error body as `Told`; never raises."""
    try:
        value = loads(raw)
    except NotJson:
        return _plain(raw, hide)
    return told_of(value, hide)


def told_of(value: Any, hide: Hide) -> Told:
    """An error that is already a JSON value as `Told`; never raises."""
    inner = _innermost(value)
    words = hide(" ".join(_sentences(inner))[:_LOOKED_AT])
    codes = frozenset(str(inner[name]).lower() for name in ("code", "type", "status") if inner.get(name))
    param = (as_text(inner.get("param")) or "").lower()
    number = as_count(inner.get("code"))
    return Told(
        text=one_line(words),
        marks=" ".join([one_line(words, 2_000).lower(), *sorted(codes), param]),
        codes=codes,
        param=param,
        number=number if number is not None and 300 <= number <= 599 else None,
        n_ctx=as_count(inner.get("n_ctx")) or _first_number(_CONTEXT_SIZES, words),
        n_prompt=as_count(inner.get("n_prompt_tokens")) or _first_number(_PROMPT_SIZES, words),
        retry_delay_s=_delay(inner.get("details")),
    )
