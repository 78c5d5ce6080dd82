"""Why an endpoint cannot be used and what to do next, in one line for a person. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from touchstone.chat.address import Address
from touchstone.chat.failure import ChatFailure
from touchstone.chat.lenient import one_line

_MOST_NAMES = 10


def _offer(names: Sequence[str]) -> str:
    if not names:
        return "load one in the server or correct the name"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"it has: {', '.join(one_line(name, 80) for name in names[:_MOST_NAMES])}{more}"


def useless(address: Address, failure: ChatFailure, model: str | None = None, names: Sequence[str] = ()) -> str:
    """The line for an EndpointError. `names` are the models that are there, for a `model` that is not."""
    place, told = address.base, failure.message
    if failure.kind == "unreachable":
        return f"nobody answers at {place} ({told}); {address.advice}"
    if failure.kind == "key":
        if address.authorization:
            return f"{place} does not accept the API key ({told}); check the variable that api_key_env names"
        return f"{place} wants an API key ({told}); set api_key_env to the name of a variable that holds it"
    if failure.kind == "model":
        return f"{place} has no model {one_line(model or '', 100)!r} ({told}); {_offer(names)}"
    if failure.kind == "quota":
        return f"the quota at {place} is used up ({told}); top it up or use another endpoint"
    if failure.kind == "address":
        return f"{place} is no chat endpoint ({told}); check the address, it usually ends in /v1"
    return f"{place} does not tell which models it has ({told}); {address.advice}"
