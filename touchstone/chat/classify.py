"""An HTTP status, headers and body to a `ChatFailure`. Pure.

Servers agree on little, so the body decides before the status does: the same overflow is a 400 here, a 500 there and
a 200 elsewhere. The rules stand in `_RULES` in the order in which they are tried; the first that knows the case wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from touchstone.chat.errorbody import Hide, Told, read_error
from touchstone.chat.failure import ChatFailure, overflow
from touchstone.chat.lenient import one_line

FIELDS: Final = ("max_completion_tokens", "max_tokens", "temperature", "seed", "stream_options")
"""Fields of our body that a server may refuse by name."""

_ADDRESS_STATUS: Final = frozenset({300, 301, 302, 303, 304, 307, 308, 404, 405, 410})
_BODY_REFUSED: Final = frozenset({400, 404, 422, 500, 501})
"""Statuses with which servers refuse a body that they could parse."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_KEY = _any(r"invalid_api_key", r"api key not valid", r"incorrect api key", r"invalid api key")
_MODERATION = _any(r"flagged", r"moderation", r"content polic")
_QUOTA = _any(r"insufficient_quota", r"insufficient balance", r"insufficient credit", r"billing_hard_limit")
_LOADING = _any(r"loading model", r"model is (?:still )?loading", r"model is being loaded")
_CONTEXT = _any(
    r"exceed_context_size",
    r"context_length_exceeded",
    r"maximum context length",
    r"maximum model length",
    r"context (?:size|length|window)",
    r"context (?:the )?overflows",
    r"exceeds? the (?:available |model's )?context",
    r"prompt is too long",
    r"input (?:is )?too long",
    r"input length exceeds",
    r"maximum number of tokens allowed",
    r"n_keep.{0,40}n_ctx",
)
_TOO_LARGE_FOR_LIMIT = _any(r"request too large", r"tokens per min.{0,120}requested")
_FORMAT = _any(
    r"response_?\s?format",
    r"json_?\s?schema",
    r"json_object",
    r"json mode",
    r"structured output",
    r"grammar",
    r"guided",
)
_SYSTEM = _any(
    r"system role",
    r"'system' (?:role )?with this model",
    r"role.{0,40}system.{0,40}not supported",
    r"system (?:message|prompt|instruction)s? (?:is|are) not supported",
    r"(?:developer|system) instruction is not enabled",
    r"roles must alternate",
)
_REFUSING = _any(
    r"unsupported",
    r"not (?:supported|permitted|allowed|recogni[sz]ed)",
    r"(?:doesn't|does not) support",
    r"unrecogni[sz]ed",
    r"unknown (?:name|field|param|arg|option|request)",
    r"unexpected (?:keyword|field|param|arg)",
    r"extra_forbidden",
    r"unknown_parameter",
    r"deprecated",
)
_MODEL = _any(
    r"model_not_found",
    r"invalid_model",
    r"invalid model",
    r"not a valid model",
    r"no models? (?:is |are |currently )?loaded",
    r"unknown model",
    r"models?\b.{0,200}?(?:not found|not exist|doesn't exist|not available)",
    r"could not find .{0,60}handler for",
)
_ROUTE = _any(r"unexpected endpoint", r"cannot (?:get|post)", r"file not found", r"page not found", r"no route")
_MACHINE = _any(
    r"out of memory",
    r"more system memory",
    r"not enough (?:system |gpu |video )?memory",
    r"failed to allocate",
    r"unable to allocate",
    r"cudamalloc",
    r"failed to load model",
    r"unable to load model",
    r"error loading model",
    r"runner process (?:has terminated|no longer running)",
    r"unknown model architecture",
    r"insufficient_memory",
)
_OWN_FAULT_OF_THE_MODEL = _any(r"json_validate_failed")
_BUSY_STATUS: Final = frozenset({408, 409, 423, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


def retry_after(headers: Mapping[str, str], now: float | None) -> float | None:
    """Seconds that the server asks to wait; `now` (seconds since the epoch) is needed where it names a date.

    `headers` has lower-case names. Read are `retry-after-ms` and `retry-after` as seconds or HTTP date (RFC 9110).
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", value):
            return float(value) * scale
    if now is None or not (value := headers.get("retry-after", "").strip()):
        return None
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _place(location: str) -> str:
    """Where a redirect leads, without the credentials and the query in it."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return one_line(f"{parts.scheme}://{host}{parts.path}" if host else parts.path, 150)


class _Case:
    """One failed response, as the rules see it."""

    def __init__(self, status: int, headers: Mapping[str, str], told: Told, now: float | None) -> None:
        self.hidden = status < 300  # an error within a 200: its own number says more, if it has one
        self.status = (told.number or 500) if self.hidden else status
        self.told = told
        self.location = _place(headers.get("location", ""))
        asked = retry_after(headers, now)
        self.retry_after_s = told.retry_delay_s if asked is None else asked

    def says(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(self.told.marks) is not None

    @property
    def words(self) -> str:
        """What the server said, as a sentence for people."""
        return f"the server answers {self.status}" + (f": {self.told.text}" if self.told.text else "")


def _key(case: _Case) -> ChatFailure | None:
    forbidden = case.status == 403 and not case.says(_MODERATION)
    if case.status == 401 or forbidden or (case.status == 400 and case.says(_KEY)):
        return ChatFailure("key", case.words, status=case.status)
    return None


def _quota(case: _Case) -> ChatFailure | None:
    if case.status == 402 or case.says(_QUOTA):
        return ChatFailure("quota", case.words, status=case.status)
    return None


def _loading(case: _Case) -> ChatFailure | None:
    if case.status in (500, 503) and case.says(_LOADING):
        return ChatFailure("loading", case.words, status=case.status, retry_after_s=case.retry_after_s)
    return None


def _too_large(case: _Case) -> ChatFailure | None:
    if case.status in (413, 429) and case.says(_TOO_LARGE_FOR_LIMIT):
        return ChatFailure("permanent", case.words, status=case.status)
    if case.status == 413 or (case.status != 429 and case.says(_CONTEXT)):
        told = case.told
        return overflow(told.n_prompt, told.n_ctx, told=told.text, status=case.status)
    return None


def _machine(case: _Case) -> ChatFailure | None:
    if case.status >= 400 and case.says(_MACHINE):
        return ChatFailure("machine", case.words, status=case.status)
    return None


def _own_fault(case: _Case) -> ChatFailure | None:
    """Groq tells with a 400 that the model did not keep to the schema: the next try may succeed."""
    if case.says(_OWN_FAULT_OF_THE_MODEL):
        return ChatFailure("retryable", case.words, status=case.status)
    return None


def _refused(case: _Case, field: str) -> ChatFailure:
    return ChatFailure("refused_field", case.words, status=case.status, field=field)


def _refused_system(case: _Case) -> ChatFailure | None:
    if case.status in _BODY_REFUSED and case.says(_SYSTEM):
        return _refused(case, "system")
    return None


def _refused_field(case: _Case) -> ChatFailure | None:
    if case.status not in _BODY_REFUSED or not case.says(_REFUSING):
        return None
    if case.told.param in FIELDS:
        return _refused(case, case.told.param)
    found = ((re.search(rf"\b{name}\b", case.told.marks), name) for name in FIELDS)
    places = [(match.start(), name) for match, name in found if match]
    return _refused(case, min(places)[1]) if places else None


def _refused_format(case: _Case) -> ChatFailure | None:
    if case.status in _BODY_REFUSED and case.says(_FORMAT):
        return _refused(case, "response_format")
    return None


def _model(case: _Case) -> ChatFailure | None:
    known = case.told.param == "model" or case.says(_MODEL)
    if (case.hidden or case.status in (400, 404, 422)) and known and not case.says(_ROUTE):
        return ChatFailure("model", case.words, status=case.status)
    return None


def _address(case: _Case) -> ChatFailure | None:
    if case.status < 400 and case.location:
        words = f"the server answers {case.status} and points to {case.location}"
        return ChatFailure("address", words, status=case.status)
    astray = (case.hidden or case.status < 500) and (case.told.is_page or case.says(_ROUTE))
    if case.status in _ADDRESS_STATUS or astray:
        return ChatFailure("address", case.words, status=case.status)
    return None


def _passing(case: _Case) -> ChatFailure | None:
    if case.status in _BUSY_STATUS:
        return ChatFailure("retryable", case.words, status=case.status, retry_after_s=case.retry_after_s)
    return None


_RULES: Final[tuple[Callable[[_Case], ChatFailure | None], ...]] = (
    _key,
    _quota,
    _loading,
    _too_large,
    _machine,
    _own_fault,
    _refused_system,
    _refused_field,
    _refused_format,
    _model,
    _address,
    _passing,
)


def no_hiding(text: str) -> str:
    """The `hide` of somebody who has no secrets."""
    return text


def classify_told(status: int, headers: Mapping[str, str], told: Told, *, now: float | None = None) -> ChatFailure:
    """Like `classify`, for an error body that is already read."""
    case = _Case(status, headers, told, now)
    for rule in _RULES:
        if failure := rule(case):
            return failure
    return ChatFailure("permanent", case.words, status=case.status)


def classify(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
    hide: Hide = no_hiding,
) -> ChatFailure:
    """The failure that this response stands for.

    `headers` has lower-case names; `now` is in seconds since the epoch, for a Retry-After that is a date; `hide`
    takes the secrets out of the server's words, which may echo them.
    """
    return classify_told(status, headers, read_error(body, hide), now=now)
