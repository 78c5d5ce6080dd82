"""The chat client: one question to an OpenAI-compatible server, whatever that server is like.

    async with Endpoint("http://localhost:1234") as endpoint:
        reply = await endpoint.ask(ChatRequest(model="qwen3-8b", user="Hello"))
        status_of(reply), note_of(reply), reply.text

The logic is without I/O (`wire` and what it gathers, `call`, `patience`); `http` is the thin shell and the only module
that knows the HTTP library. It is imported when `Endpoint` is first asked for, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from touchstone.chat.wire import ChatFailure, ChatRequest, Reply, Status, note_of, status_of

if TYPE_CHECKING:
    from touchstone.chat.http import Endpoint

__all__ = ["ChatFailure", "ChatRequest", "Endpoint", "Reply", "Status", "note_of", "status_of"]


def __getattr__(name: str) -> Any:
    if name == "Endpoint":
        from touchstone.chat.http import Endpoint

        return Endpoint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
