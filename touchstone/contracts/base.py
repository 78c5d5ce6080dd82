"""The two temperaments of our models, and the words shared by several of them. Pure.

What a person writes (pack, config, form) is read strictly and with all issues at once. What a program appended to a
log is read leniently where it is only incomplete (absent reads as null) and refused where it is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from touchstone import yamlsource
from touchstone.errors import InputError, Issue, brief

M = TypeVar("M", bound=BaseModel)

Recommendation = Literal["Ja", "Mit Einschränkung", "Nein"]
"""Wire values in data; pages say them in their own language."""

ID_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]*$"


class Written(BaseModel):
    """Something a person wrote: unknown keys are refused, types are exact."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Logged(BaseModel):
    """Something a program logged: unknown keys are ignored, wrong values are refused, absent reads as null."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


def _seconds(value: Any) -> Any:
    """ISO 8601 text to seconds since the epoch (UTC where no zone is given); anything else is left to pydantic."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return value


def _positive_zero(value: float) -> float:
    return value + 0.0 if value == 0 else value


Timestamp = Annotated[float, BeforeValidator(_seconds), Field(ge=-1e11, le=1e12), AfterValidator(_positive_zero)]
"""Seconds since the Unix epoch, UTC; year 33,658 is the limit."""

Measure = Annotated[float, Field(ge=0, le=1e18), AfterValidator(_positive_zero)]
"""A measured amount: finite, not negative."""

Name = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A part of a key: one printable line."""

Id = Annotated[str, Field(max_length=100, pattern=ID_PATTERN)]

Score = Annotated[int, Field(ge=1, le=5)]


def finite_or_none(value: float | None) -> float | None:
    """Unknown is null: NaN and infinities never leave the house, -0 is 0."""
    if value is None or not math.isfinite(value):
        return None
    return value + 0.0 if value == 0 else value


_KNOWN: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key; remove it or correct its spelling",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping (key: value)",
    "model_type": "must be a mapping (key: value)",
    "finite_number": "must be a finite number",
}


def _sentence(error: ErrorDetails, raw: str | None) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "string_type" and raw is not None:
        return f'must be text, but YAML reads {raw[:40]} as something else; quote it: "{raw[:40]}"'
    if kind == "string_pattern_mismatch" and context.get("pattern") == ID_PATTERN:
        return "must consist of a-z, 0-9, - and _, and start with a letter or digit"
    if kind in _KNOWN:
        return _KNOWN[kind]
    limits = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}
    if kind in limits:
        limit = next(iter(context.values()))
        got = "" if raw is None else f" (got {raw[:40]})"
        return f"must be {limits[kind]} {limit:.15g}{got}"
    if kind == "too_short":
        return f"must hold at least {context['min_length']} item(s)"
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    return error["msg"].removeprefix("Value error, ")


def dotted(path: Iterable[str | int]) -> str:
    """`("cells", 0, "model")` as `cells[0].model`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{brief(part)}" if text else brief(part)
    return text


def issues_of(error: ValidationError, document: yamlsource.Document, source: str) -> list[Issue]:
    """A pydantic error as issues with line, path and the way to mend it."""
    found = []
    items = error.errors(include_url=False, include_input=False)
    for item in items:
        path: yamlsource.Path = tuple(part for part in item["loc"] if part != "[key]")
        if item["type"] == "string_type" and item["loc"][-1:] == ("[key]",):
            text = "has a key that YAML reads as something other than text; quote it"
            found.append(Issue(source, document.line_of(path[:-1]), f"{dotted(path[:-1])} {text}"))
            continue
        if item["type"] == "too_short" and any(
            other["loc"][: len(path)] == path for other in items if other is not item
        ):
            # Its items are all wrong, and each of them says so itself.
            continue
        line = document.line_of(path)
        where = dotted(path)
        text = _sentence(item, document.raw.get(path))
        found.append(Issue(source, line, f"{where} {text}" if where else f"the file {text}"))
    return found


def from_document(model: type[M], document: yamlsource.Document, source: str) -> M:
    """The document as `model`. Raises InputError with all issues: duplicates and wrong values alike."""
    issues = list(document.issues)
    try:
        value = model.model_validate(document.value)
    except ValidationError as error:
        issues += issues_of(error, document, source)
        raise InputError(sorted(issues, key=lambda issue: issue.line or 0)) from None
    except RecursionError:
        raise InputError([Issue(source, None, "nested too deep")]) from None
    if issues:
        raise InputError(issues)
    return value


def from_yaml(
    model: type[M], text: str | bytes, source: str, look: Callable[[yamlsource.Document], Iterable[Issue]] | None = None
) -> M:
    """YAML text as `model`. Raises InputError with all issues; `look` finds more in the document as it stands."""
    try:
        document = yamlsource.load(text, source)
    except yamlsource.Unreadable as error:
        raise InputError(error.issues) from None
    if look is not None:
        document.issues.extend(look(document))
    return from_document(model, document, source)
