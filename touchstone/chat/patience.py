"""How long one question is asked again, and when. Pure.

loading                       polled every 1, 2, 3, 4, 5, 5 … s; only the wall-clock limit ends it
connection broke before any   once at once and for free: a server may close a kept-alive connection at any moment
  header
other passing failures        `retries` times, after 1, 2, 4 … 30 s, or what Retry-After says up to 120 s
nobody answers at all         the same, but at most `reconnects` times: somebody else may be asked instead
everything else               not at all
"""

from __future__ import annotations

from typing import Final

from touchstone.chat.failure import ChatFailure

MAX_OBEYED_S: Final = 120.0
"""A server that asks to wait longer is given up; a later run asks again."""

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0
LONGEST_POLL_S: Final = 5.0


class Patience:
    """The patience for one question; it is used up as it is asked."""

    def __init__(self, retries: int, reconnects: int | None = None) -> None:
        self._left = retries
        self._reconnects = retries if reconnects is None else reconnects
        self._tries = 0
        self._polls = 0
        self._free = True

    def wait_after(self, failure: ChatFailure) -> float | None:
        """Seconds until the next try; None to give up."""
        if not failure.passing:
            return None
        if failure.kind == "loading":
            self._polls += 1
            return min(float(self._polls), LONGEST_POLL_S)
        if failure.kind == "connection" and self._free:
            self._free = False
            return 0.0
        if failure.kind == "unreachable":
            self._reconnects -= 1
        if self._left <= 0 or self._reconnects < 0 or (failure.retry_after_s or 0.0) > MAX_OBEYED_S:
            return None
        self._left -= 1
        self._tries += 1
        if failure.retry_after_s is not None:
            return failure.retry_after_s
        return min(FIRST_WAIT_S * 2.0 ** (self._tries - 1), LONGEST_WAIT_S)
