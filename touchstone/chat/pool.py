"""Several endpoints with the same model as one. Least busy first; one that is gone is left out and tried again.

What concerns one question (a busy server, a reply that breaks off) is `Endpoint`'s; here it is about servers:

    nobody answers                  left out for 1, 2, 4 … 30 s; its question goes to another, or waits
    an answer could not be had      the same, where another endpoint may do better; else it is this question's failure
    key, model, quota, address      left out for good
    all left out for good           EndpointError; so is a server that nobody reached for as long as a call may take,
                                    if there is no other
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from touchstone.chat.failure import ChatFailure
from touchstone.chat.http import Endpoint
from touchstone.chat.reply import Reply
from touchstone.chat.request import ChatRequest
from touchstone.chat.stop import Stopped, StopSign
from touchstone.errors import EndpointError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
_LATE_S: Final = 0.01
"""A timer that came a tick too early would wake somebody who then waits for ever."""


@dataclass(eq=False)
class _Member:
    """One endpoint and how it fares."""

    endpoint: Endpoint
    busy: int = 0
    """Questions under way."""
    given: int = 0
    """Questions so far."""
    away_since: float | None = None
    """When it was first missed; None while it answers."""
    away_s: float = 0.0
    """How long it had been away when it was last tried."""
    back_at: float = 0.0
    """When it is tried again."""
    tries: int = 0
    """In vain, since it is away."""
    reason: str = ""
    """Why it is away or gone, in a sentence for people."""
    gone: bool = False
    """For good."""


class Pool:
    """Spoken to from one event loop. Waits are for the endpoints, so they end with `Stopped` once `sign` is set."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        slots: int = 1,
        api_key: str | None = None,
        timeout_s: float = 300.0,
        on_note: Callable[[str], None] | None = None,
        sign: StopSign | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
        longest_pause_s: float = LONGEST_PAUSE_S,
    ) -> None:
        """At most `slots` questions at once for each of `urls`. Raises EndpointError for an address of no use.

        A server that nobody reaches for `timeout_s`, the time that a call may take, is given up if there is no other.
        """
        if not urls:
            raise ValueError("a pool needs at least one endpoint")
        self._sign = StopSign() if sign is None else sign
        self._slots = slots
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._timeout_s = timeout_s
        self._note = on_note or (lambda text: None)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._members = [
            _Member(
                Endpoint(
                    url,
                    api_key=api_key,
                    timeout_s=timeout_s,
                    reconnects=0,  # a server that is gone is our affair
                    on_note=on_note,
                    sleep=self._sign.sleep,
                )
            )
            for url in urls
        ]
        self._sign.then(self._wake_all)

    @property
    def slots(self) -> int:
        """How many questions can be under way at once."""
        return self._slots * len(self._members)

    async def __aenter__(self) -> Self:
        for member in self._members:
            await member.endpoint.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            await member.endpoint.__aexit__(kind, error, trace)

    # ── what callers ask ─────────────────────────────────────────────────────────────────────────────────────────

    async def greet(self) -> None:
        """Raises EndpointError at once where no endpoint can be used; some that cannot are left out."""
        errors = await asyncio.gather(*(_greeted(member.endpoint) for member in self._members))
        found = [(member, error) for member, error in zip(self._members, errors, strict=True) if error is not None]
        if len(found) == len(self._members):
            raise _nobody([str(error) for _, error in found])
        for member, error in found:
            self._missed(member, error)

    async def context_tokens(self, model: str) -> int | None:
        """The smallest context of this model in tokens, as far as the endpoints tell; None if none does."""
        asked = [member for member in self._members if member.away_since is None and not member.gone]
        sizes = await asyncio.gather(*(member.endpoint.context_tokens(model) for member in asked))
        return min((size for size in sizes if size is not None), default=None)

    async def ask(self, request: ChatRequest) -> Reply:
        """One answer. Raises ChatFailure for what concerns this one, EndpointError where no other would come either."""
        tried: set[_Member] = set()
        while True:
            member = await self._acquire(tried)
            try:
                reply = await member.endpoint.ask(request)
            except EndpointError as error:
                self._missed(member, error)
            except ChatFailure as failure:
                tried.add(member)
                if not failure.passing or not self._others(tried):
                    raise
                text = f"{member.endpoint.safe_url} does not answer as it should ({failure})"
                self._missed(member, EndpointError(text, passing=True))
            else:
                self._answered(member)
                return reply
            finally:
                member.busy -= 1
                self._wake(1)

    # ── who is asked next ────────────────────────────────────────────────────────────────────────────────────────

    def _others(self, tried: set[_Member]) -> list[_Member]:
        """Endpoints that answer, as far as is known, and have not failed with this question."""
        return [
            member for member in self._members if not member.gone and member.away_since is None and member not in tried
        ]

    def _ready(self, without: set[_Member]) -> list[_Member]:
        """Endpoints that can take a question now; one that was away gets a single one at first."""
        now = _now()
        return [
            member
            for member in self._members
            if not member.gone
            and member not in without
            and member.back_at <= now
            and member.busy < (self._slots if member.away_since is None else 1)
        ]

    async def _acquire(self, tried: set[_Member]) -> _Member:
        """The least busy endpoint, once there is one. It is the caller's to give back."""
        while True:
            if self._sign:
                raise Stopped
            if self._lost():
                self._wake_all()
                raise _nobody([member.reason for member in self._members])
            if ready := self._ready(tried if self._others(tried) else set()):
                member = min(ready, key=lambda member: (member.busy, member.given))
                member.busy += 1
                member.given += 1
                return member
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1

    def _wake_all(self) -> None:
        self._wake(len(self._waiting))

    # ── how they fare ────────────────────────────────────────────────────────────────────────────────────────────

    def _missed(self, member: _Member, error: EndpointError) -> None:
        """It did not answer: leave it out, for a while or for good."""
        now = _now()
        first = member.away_since is None
        since = member.away_since = now if member.away_since is None else member.away_since
        member.reason = str(error)
        if not error.passing:
            member.gone = True
            if len(self._members) > 1:
                self._note(f"{error}; going on without it")
            self._wake_all()
        elif first or now >= member.back_at:  # else it is left out already: several questions were under way
            member.away_s = now - since
            pause = min(self._first_pause_s * 2.0 ** min(member.tries, 30), self._longest_pause_s)
            member.tries += 1
            member.back_at = now + pause
            asyncio.get_running_loop().call_later(pause + _LATE_S, self._wake, 1)
            if first:
                self._note(f"{error}; it is tried again from time to time")

    def _answered(self, member: _Member) -> None:
        if member.away_since is not None:
            self._note(f"{member.endpoint.safe_url} answers again")
            member.away_since, member.away_s, member.back_at, member.tries = None, 0.0, 0.0, 0
            self._wake(self._slots)

    def _lost(self) -> bool:
        """Whether there is no hope of any answer."""
        return all(member.gone or member.away_s >= self._timeout_s for member in self._members)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _greeted(endpoint: Endpoint) -> EndpointError | None:
    try:
        await endpoint.greet()
    except EndpointError as error:
        return error
    return None


def _nobody(reasons: Sequence[str]) -> EndpointError:
    if len(reasons) == 1:
        return EndpointError(reasons[0])
    return EndpointError(f"none of the {len(reasons)} endpoints can be used: {'; '.join(reasons)}")
