"""What a server sent, read with a soft hand: a strange part becomes None, never an exception further in. Pure.

Not `jsonsource`, for what a strict parser refuses is read once more by the standard library's: a server may split an
emoji into two lone surrogate halves that stand in two chunks, or write NaN into a field that nobody reads. Neither may
cost an answer. What leaves this package is cleaned in `reply`.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from pydantic_core import from_json

MAX_COUNT: Final = 2**53
"""A token count above this is nonsense, whatever the server says."""

_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)  # built once: there are thousands of chunks


class NotJson(ValueError):
    """These bytes are no JSON text that can be read (broken, or nested too deep)."""


def loads(raw: bytes) -> Any:
    """Any JSON value; NaN and the infinities read as null. Raises NotJson."""
    try:
        return from_json(raw, allow_inf_nan=False)  # a third of the time, and there is a chunk for each token
    except ValueError:
        pass
    try:
        return _DECODER.decode(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str | None:
    """The text, or None where there is none or an empty one."""
    return value if isinstance(value, str) and value else None


def as_count(value: Any) -> int | None:
    """A whole number >= 0, also where it was written as 12.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value <= MAX_COUNT else None


def as_measure(value: Any) -> float | None:
    """A finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_COUNT and math.isfinite(value) else None


def one_line(text: str, limit: int = 300) -> str:
    """Foreign text as it can stand in a message: one line, printable, at most `limit` characters.

    Unprintable characters go because a message ends on a terminal, where an escape sequence would act.
    """
    clean = "".join(char if char.isprintable() else " " for char in text[: limit * 8])
    line = " ".join(clean.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
