"""What is asked, and how it is put into a body that this very server takes. Pure.

A `ChatRequest` says what is wanted. `Habits` say what one model of one endpoint was found to refuse: they start empty
and only ever ask for less. `body_of` joins the two; `adapt` turns a refusal into the next habits to try:

    response_format refused     json_schema -> json_object -> text      (the prompt describes the JSON anyway)
    max_tokens refused          max_completion_tokens
    temperature, seed, stream_options refused                           left out
    system role refused         its text stands before the user's
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from touchstone.chat.failure import ChatFailure
from touchstone.contracts.lines import Mode
from touchstone.jsonsource import clean_text

RESERVED: Final = frozenset({"model", "messages", "stream"})
"""Fields of the body that `extra` may not override."""

LADDER: Final[tuple[Mode, ...]] = ("json_schema", "json_object", "text")
"""Ways to ask for JSON, the strictest first."""

DROPPABLE: Final = frozenset({"temperature", "seed", "stream_options"})


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to one model. Raises ValueError where `extra` cannot be sent."""

    model: str
    user: str
    system: str | None = None
    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Merged into the body last, for what only some servers know (`top_k`, `chat_template_kwargs` …)."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the wanted reply; None asks for prose."""
    schema_name: str = "reply"
    mode: Mode = "json_schema"
    """How JSON is asked for at best; used only where a schema is set."""

    def __post_init__(self) -> None:
        if taken := sorted(RESERVED & set(self.extra)):
            raise ValueError(f"extra may not set {', '.join(taken)}")
        try:
            json.dumps(dict(self.extra), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"extra cannot be written as JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class Habits:
    """What one model of one endpoint was found to want otherwise."""

    mode: Mode = "json_schema"
    """The strictest way of asking for JSON that is not known to be refused."""
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    dropped: frozenset[str] = frozenset()
    system_in_user: bool = False

    def joined(self, other: Habits) -> Habits:
        """Both experiences together: two calls under way at once may each have learned something."""
        return Habits(
            mode=_lower(self.mode, other.mode),
            token_field=min(self.token_field, other.token_field),  # "max_completion…" sorts before "max_tokens"
            dropped=self.dropped | other.dropped,
            system_in_user=self.system_in_user or other.system_in_user,
        )


def _lower(one: Mode, other: Mode) -> Mode:
    return max(one, other, key=LADDER.index)


def mode_of(request: ChatRequest, habits: Habits) -> Mode | None:
    """The way in which this body asks for JSON; None where no JSON is wanted."""
    return None if request.schema is None else _lower(request.mode, habits.mode)


def _messages(request: ChatRequest, habits: Habits) -> list[dict[str, str]]:
    user = clean_text(request.user)
    if not request.system:
        return [{"role": "user", "content": user}]
    system = clean_text(request.system)
    if habits.system_in_user:
        return [{"role": "user", "content": f"{system}\n\n{user}"}]
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def body_of(request: ChatRequest, habits: Habits) -> dict[str, Any]:
    """The JSON body of `POST /chat/completions`."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _messages(request, habits),
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": request.temperature,
        habits.token_field: request.max_tokens,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    mode = mode_of(request, habits)
    if mode == "json_schema":
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": request.schema_name, "strict": True, "schema": request.schema},
        }
    elif mode == "json_object":
        body["response_format"] = {"type": "json_object"}
    for name in habits.dropped:
        body.pop(name, None)
    return body | dict(request.extra)


def encode(body: Mapping[str, Any]) -> bytes:
    """The body as it goes over the wire; pure ASCII, so that no server can misread it."""
    return json.dumps(body, allow_nan=False, default=dict).encode("ascii")


def _refused(failure: ChatFailure, mode: Mode | None) -> str | None:
    """The refused field; a 400 that names nothing is laid at the door of response_format, the usual culprit."""
    if failure.kind == "refused_field":
        return failure.field
    if failure.kind == "permanent" and failure.status in (400, 422) and mode not in (None, "text"):
        return "response_format"
    return None


def adapt(request: ChatRequest, habits: Habits, failure: ChatFailure) -> Habits | None:
    """The habits to try next after this failure; None where asking differently is no help."""
    mode = mode_of(request, habits)
    refused = _refused(failure, mode)
    if refused is None or refused in request.extra:  # what the user asked for by name is not ours to drop
        return None
    if refused == "response_format" and mode is not None and mode != "text":
        return replace(habits, mode=LADDER[LADDER.index(mode) + 1])
    if refused == "max_tokens" and habits.token_field == "max_tokens":
        return replace(habits, token_field="max_completion_tokens")
    if refused == "system" and request.system and not habits.system_in_user:
        return replace(habits, system_in_user=True)
    if refused in DROPPABLE and refused not in habits.dropped:
        return replace(habits, dropped=habits.dropped | {refused})
    return None


def change_between(old: Habits, new: Habits) -> str:
    """What `adapt` changed, in words for a note."""
    if old.mode != new.mode:
        return f"refuses to be asked for JSON by {old.mode}; asking by {new.mode} from now on"
    if old.token_field != new.token_field:
        return f"refuses max_tokens; sending {new.token_field} from now on"
    if old.system_in_user != new.system_in_user:
        return "refuses the system role; its text stands before the user's from now on"
    return f"refuses {', '.join(sorted(new.dropped - old.dropped))}; left out from now on"
