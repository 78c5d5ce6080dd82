"""Asking a stand-in, in one line: what most tests here do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.standin import Request, Script, StandIn
from touchstone.chat import ChatFailure, ChatRequest, Endpoint, Reply
from touchstone.errors import EndpointError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}, "red_flag": {"type": "boolean"}},
    "required": ["score", "red_flag"],
    "additionalProperties": False,
}


def question(**changes: Any) -> ChatRequest:
    return ChatRequest(**{"model": "stand-in", "user": "What is a touchstone?", **changes})


def json_question(**changes: Any) -> ChatRequest:
    return question(schema=SCHEMA, **changes)


@dataclass
class Told:
    """What came of asking: replies or failures in order, and everything around them."""

    results: list[Reply | ChatFailure | EndpointError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    chats: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def result(self) -> Reply | ChatFailure | EndpointError:
        return self.results[-1]

    @property
    def reply(self) -> Reply:
        assert isinstance(self.result, Reply), f"no reply: {self.result!r}"
        return self.result

    @property
    def failure(self) -> ChatFailure:
        assert isinstance(self.result, ChatFailure), f"no failure: {self.result!r}"
        return self.result

    @property
    def useless(self) -> str:
        assert isinstance(self.result, EndpointError), f"the endpoint is of use: {self.result!r}"
        return str(self.result)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.json for request in self.chats]


async def outcome(endpoint: Endpoint, request: ChatRequest) -> Reply | ChatFailure | EndpointError:
    try:
        return await endpoint.ask(request)
    except (ChatFailure, EndpointError) as failure:
        return failure


def ask(
    script: Script | None,
    *requests: ChatRequest,
    url: Callable[[StandIn], str] = lambda server: server.url,
    **options: Any,
) -> Told:
    """Ask a stand-in with this script one question after the other. Sleeping between tries is noted, not done."""
    told = Told()

    async def sleep(seconds: float) -> None:
        told.slept.append(seconds)

    async def run(server: StandIn) -> None:
        settings = {"on_note": told.notes.append, "sleep": sleep, "timeout_s": 20.0, **options}
        async with Endpoint(url(server), **settings) as endpoint:
            for request in requests or (question(),):
                told.results.append(await outcome(endpoint, request))

    with StandIn(script) as server:
        asyncio.run(run(server))
        told.chats = server.chats
        told.connections = server.connections
    return told
