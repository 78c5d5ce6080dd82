"""Untrusted JSON text to a contract model, or to a reason why not. Pure.

Every line of a log, every reply of a model goes through here. The parser underneath (jiter, in Rust) has a
recursion limit and refuses lone surrogates and raw control characters; what it lets through (NaN literals, NUL
escapes) is refused here, because neither survives the way to a page or to another reader.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from touchstone.errors import brief

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A longer line is refused unread."""


class Refused(ValueError):
    """This text is not what it should be; the message is one line that says why."""


def _reason(error: ErrorDetails) -> str:
    path = ".".join(brief(part) for part in error["loc"] if not str(part).startswith("function-"))
    kind, message = error["type"], error["msg"]
    if kind == "json_invalid":
        return f"not valid JSON: {message.removeprefix('Invalid JSON: ')}"
    if kind == "missing":
        return f"{path} is missing"
    if kind == "union_tag_not_found":
        return "event is missing"
    if kind == "union_tag_invalid":
        return "unknown event"
    message = brief(message.removeprefix("Value error, ").removeprefix("Input "), 200)
    return f"{path}: {message}" if path else message


def explain(error: ValidationError) -> str:
    """All reasons of a pydantic error in one line, without echoing the (possibly huge) input."""
    return "; ".join(_reason(item) for item in error.errors(include_url=False, include_input=False)[:5])


def _precheck(data: bytes) -> None:
    if len(data) > MAX_LINE_BYTES:
        raise Refused(f"line of {len(data)} bytes is longer than {MAX_LINE_BYTES}")
    # Substring searches are cheap; only a line that could hold one of these is looked at twice.
    if b"\\u0000" in data or b"NaN" in data or b"Infinity" in data:
        try:
            tree = from_json(data, allow_inf_nan=False)
        except ValueError as error:
            raise Refused(f"not valid JSON: {error}") from None
        if _holds_nul(tree):
            raise Refused("holds a NUL character")


def _holds_nul(tree: Any) -> bool:
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def parse_model(model: type[M], data: bytes) -> M:
    """One JSON object as `model`; raises Refused with the reason."""
    _precheck(data)
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise Refused(explain(error)) from None


def parse_union(adapter: TypeAdapter[T], data: bytes) -> T:
    """One JSON object as one of the models of `adapter`; raises Refused with the reason."""
    _precheck(data)
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        raise Refused(explain(error)) from None


def parse_any(data: bytes | str) -> Any:
    """Any JSON value, depth limited, no NaN; raises Refused with the reason."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_LINE_BYTES:
        raise Refused(f"text of {len(raw)} bytes is longer than {MAX_LINE_BYTES}")
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(f"not valid JSON: {error}") from None


def clean_text(text: str) -> str:
    """Model text as it can be stored and read back: NUL and lone surrogates become U+FFFD, all else stays."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_NONCHARACTERS: Final = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\u202d\u202e" + _NONCHARACTERS + "]"
)


def visible(text: str) -> str:
    """Characters that HTML and XML do not allow become U+FFFD, so that a page is a page whatever a model said.

    So do the two that force a direction upon all text after them: they serve to disguise, no script needs them.
    """
    # Most texts hold nothing of the kind, and this test is ten times as fast as the search.
    return text if text.replace("\n", "").isprintable() else _INVISIBLE.sub("\ufffd", text)
