"""Who has to be told what changed. Thread-safe; knows no sockets and no files.

Each build has a number. A page says which one it shows, so that nothing is missed between its loading and its first
event, and nothing after a lost connection. A listener that does not keep up is let go and starts afresh.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from queue import Full, Queue
from typing import Final

HISTORY: Final = 512
"""Builds that are remembered for those who come back."""
BACKLOG: Final = 64
"""Changes that may wait for one listener."""
MAX_PATHS: Final = 2000
"""More than that changed at once: everything may have."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one build changed. `paths` None: more than we remember; everything may have changed."""

    id: str
    build: int
    paths: tuple[str, ...] | None


class Listener:
    """One open event stream. `page`: the one that is open there; None if nobody said."""

    def __init__(self, page: str | None = None) -> None:
        self.page = page
        self._queue: Queue[Change | None] = Queue(BACKLOG)
        self.lost = False

    def put(self, change: Change | None) -> None:
        try:
            self._queue.put_nowait(change)
        except Full:
            self.lost = True

    def get(self, timeout: float) -> Change | None:
        """The next change; None if the hub closes. Raises queue.Empty after `timeout` seconds."""
        return self._queue.get(timeout=timeout)


class Hub:
    """Numbers the builds and tells the listeners."""

    def __init__(self, start: str) -> None:
        """`start` tells this run of the server from any other; plain letters and digits."""
        self._start = start
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._build = 0
        self._fault: str | None = None
        self._closed = False

    @property
    def id(self) -> str:
        """Of the newest build: `<server start>-<build>`."""
        return f"{self._start}-{self._build}"

    @property
    def fault(self) -> str | None:
        """Why the newest build failed; None if it did not."""
        return self._fault

    def publish(self, paths: Iterable[str]) -> None:
        """A build is complete; `paths` are the pages and files that it changed (none: nobody is told)."""
        changed = tuple(sorted(paths))
        with self._lock:
            mended, self._fault = self._fault is not None, None
            if mended or len(changed) > MAX_PATHS:
                self._tell(None)
            elif changed:
                self._tell(changed)

    def fail(self, fault: str) -> None:
        """A build failed; `fault` says where and why. It stands until the next complete build."""
        with self._lock:
            if fault != self._fault:
                self._fault = fault
                self._tell(None)

    def _tell(self, paths: tuple[str, ...] | None) -> None:
        self._build += 1
        change = Change(self.id, self._build, paths)
        self._history.append(change)
        for listener in self._listeners:
            listener.put(change)
        self._listeners = {listener for listener in self._listeners if not listener.lost}

    def join(self, last_id: str | None, page: str | None = None) -> tuple[Listener, Sequence[Change]]:
        """A new listener that shows `page`, and what it missed since `last_id`."""
        with self._lock:
            listener = Listener(page)
            if self._closed:
                listener.put(None)
            else:
                self._listeners.add(listener)
            return listener, self._missed(last_id)

    def _missed(self, last_id: str | None) -> Sequence[Change]:
        if last_id is None:
            return ()
        start, _, number = last_id.rpartition("-")
        since = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1
        known = start == self._start and 0 <= since <= self._build
        oldest = self._history[0].build if self._history else self._build + 1
        if not known or since + 1 < oldest:
            return () if known and since == self._build else (Change(self.id, self._build, None),)
        missed = [change.paths for change in self._history if change.build > since]
        paths = {path for each in missed for path in each or ()}
        if None in missed or len(paths) > MAX_PATHS:
            return (Change(self.id, self._build, None),)
        return (Change(self.id, self._build, tuple(sorted(paths))),) if missed else ()

    def leave(self, listener: Listener) -> None:
        """The stream is closed."""
        with self._lock:
            self._listeners.discard(listener)

    @property
    def watched(self) -> frozenset[str]:
        """The pages that are open somewhere."""
        with self._lock:
            return frozenset(listener.page for listener in self._listeners if listener.page is not None)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def close(self) -> None:
        """Ends all streams."""
        with self._lock:
            self._closed = True
            for listener in self._listeners:
                listener.put(None)
                listener.lost = True
            self._listeners.clear()
