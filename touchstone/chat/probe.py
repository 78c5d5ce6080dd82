"""What servers say about their models, read out of JSON values. Pure.

Nobody agrees on where the context length stands; each row of `CONTEXT_ROUTES` is one server's way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from touchstone.chat.lenient import as_count, as_dict, as_text
from touchstone.chat.reply import same_model

_LISTED: Final = ("max_model_len", "context_window", "max_context_length", "context_length")
"""Names of the context length in `GET /v1/models` (vLLM, Groq, Mistral, OpenRouter)."""


def _entries(value: Any, *names: str) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [as_dict(item) for item in value]
    for name in names:
        if isinstance(found := as_dict(value).get(name), list):
            return [as_dict(item) for item in found]
    return []


def model_names(value: Any) -> list[str]:
    """The ids in the answer to `GET /v1/models`, in the server's order."""
    found = (as_text(entry.get("id")) or as_text(entry.get("name")) for entry in _entries(value, "data", "models"))
    return [name for name in found if name]


def _of_model(entries: Iterable[dict[str, Any]], model: str) -> dict[str, Any]:
    """The entry of this model: the exact name first, else one that may be the same."""
    named = [(as_text(entry.get("id")) or as_text(entry.get("name")) or "", entry) for entry in entries]
    for name, entry in named:
        if name == model:
            return entry
    return next((entry for name, entry in named if name and same_model(model, name)), {})


def _positive(value: Any) -> int | None:
    return as_count(value) or None


def listed_context(value: Any, model: str) -> int | None:
    """`GET /v1/models`: vLLM's max_model_len and its cousins."""
    entry = _of_model(_entries(value, "data", "models"), model)
    return next((size for name in _LISTED if (size := _positive(entry.get(name)))), None)


def props_context(value: Any, model: str) -> int | None:
    """`GET /props` of llama.cpp: the context of one slot, which is what one request can use."""
    return _positive(as_dict(as_dict(value).get("default_generation_settings")).get("n_ctx"))


def studio_context(value: Any, model: str) -> int | None:
    """`GET /api/v0/models` of LM Studio: as loaded, else what the model could have."""
    entry = _of_model(_entries(value, "data"), model)
    return _positive(entry.get("loaded_context_length")) or _positive(entry.get("max_context_length"))


def running_context(value: Any, model: str) -> int | None:
    """`GET /api/ps` of Ollama: the context with which the model runs at the moment."""
    return _positive(_of_model(_entries(value, "models"), model).get("context_length"))


ContextReader = Callable[[Any, str], "int | None"]

CONTEXT_ROUTES: Final[tuple[tuple[bool, str, ContextReader], ...]] = (
    (False, "/api/v0/models", studio_context),
    (False, "/props", props_context),
    (False, "/api/ps", running_context),
    (True, "/models", listed_context),
)
"""(below the version?, path, reader), the more exact first: what is loaded before what is possible."""


def fewest_tokens(*texts: str | None) -> int:
    """A lower bound of how many tokens these texts have: no usual tokenizer puts two words into one token."""
    return sum(len(text.split()) for text in texts if text)


def likely_tokens(*texts: str | None) -> int:
    """A guess at how many tokens these texts have, rather too low: English has 4 to 5 characters a token."""
    return max(fewest_tokens(*texts), sum(len(text) for text in texts if text) // 5)
