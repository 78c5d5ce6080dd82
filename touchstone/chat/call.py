"""One question, asked until there is an answer or a reason why not. Effects (send, sleep, clock) are handed in.

Why a loop of our own and neither tenacity nor stamina: what follows a failure here is rarely "wait and do the same".
It is asking differently (the ladder), asking at once (a stale connection), polling without end (a model that loads)
or waiting as long as the server said, and each of these treats the wall-clock limit in its own way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from touchstone.chat.failure import ChatFailure
from touchstone.chat.patience import Patience
from touchstone.chat.reply import Reply
from touchstone.chat.request import ChatRequest, Habits, adapt, body_of, change_between, encode, mode_of
from touchstone.chat.stream import StreamParser

MOST_CHANGES: Final = 8
"""Of habits within one call; there are seven things that can be refused."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a call needs from outside."""

    send: Callable[[bytes, StreamParser, Callable[[], None]], Awaitable[None]]
    """Sends a body and feeds the parser; calls back once the first token is there. Raises ChatFailure."""
    diagnose: Callable[[ChatFailure], Awaitable[ChatFailure]]
    """May know better what a failure means."""
    note: Callable[[str], None]
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], float]
    hide: Callable[[str], str]
    timeout_s: float
    first_token_s: float | None
    retries: int
    reconnects: int | None = None
    hide_said: Callable[[str], str] = str
    """Takes keys out of what the server gives as the model's words: they are kept, and may be published."""


class Call:
    """The state of one call. `habits` holds what was learned, to be kept by the caller after success."""

    def __init__(self, request: ChatRequest, habits: Habits, means: Means) -> None:
        self.habits = habits
        self._request = request
        self._means = means
        self._patience = Patience(means.retries, means.reconnects)
        self._changes = 0
        self._parser: StreamParser | None = None
        self._loading = False

    async def run(self) -> Reply:
        """The reply. Raises ChatFailure."""
        try:
            async with asyncio.timeout(self._means.timeout_s) as limit:
                while True:
                    try:
                        return await self._attempt()
                    except ChatFailure as failure:
                        await self._after(await self._means.diagnose(failure), limit)
        except TimeoutError:
            raise self._too_late() from None

    async def _attempt(self) -> Reply:
        self._parser = parser = StreamParser(
            self._means.clock(),
            max_tokens=self._request.max_tokens,
            mode=mode_of(self._request, self.habits),
            hide=self._means.hide,
        )
        body = encode(body_of(self._request, self.habits))
        try:
            async with asyncio.timeout(self._means.first_token_s) as limit:
                await self._means.send(body, parser, lambda: limit.reschedule(None))
        except TimeoutError:
            message = f"no first token within {self._means.first_token_s:g} s"
            raise ChatFailure("timeout", message) from None
        return self._bare(parser.close(self._means.clock()))

    def _bare(self, reply: Reply) -> Reply:
        hide = self._means.hide_said
        words = {name: getattr(reply, name) for name in ("text", "reasoning", "finish_reason", "model")}
        hidden: dict[str, Any] = {name: text if text is None else hide(text) for name, text in words.items()}
        return reply if hidden == words else replace(reply, **hidden)

    async def _after(self, failure: ChatFailure, limit: asyncio.Timeout) -> None:
        """Get ready for the next try, or give up with this failure."""
        if (habits := adapt(self._request, self.habits, failure)) and self._changes < MOST_CHANGES:
            self._changes += 1
            self._means.note(f"{self._request.model} {change_between(self.habits, habits)}")
            self.habits = habits
            return
        wait = self._patience.wait_after(failure)
        if wait is None:
            raise failure
        self._loading = failure.kind == "loading"
        if self._loading:
            self._means.note(f"{self._request.model} is being loaded; waiting")
        elif failure.retry_after_s and wait >= 1:
            self._means.note(f"the endpoint asks to wait {wait:g} s; waiting")
        if not self._loading and (when := limit.when()) is not None:
            limit.reschedule(when + wait)  # the limit is for the server's time, not for our politeness
        if wait:
            await self._means.sleep(wait)

    def _too_late(self) -> ChatFailure:
        limit = f"{self._means.timeout_s:g} s"
        chars = self._parser.text_chars if self._parser else 0
        if self._loading and not chars:
            message = f"the model was still being loaded after {limit}; raise timeout_s or load it beforehand"
        elif chars:
            message = f"the answer was not complete after {limit} ({chars} characters so far); raise timeout_s"
        else:
            message = f"no first token within {limit}; raise timeout_s"
        return ChatFailure("timeout", message)
