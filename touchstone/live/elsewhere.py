"""Runs that lie elsewhere, looked at every few seconds while their site is served.

What is new lands in a folder of this machine that is watched like any other. What goes wrong stands in for the pages,
as everything does that keeps a site from being built, until a later look goes well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from touchstone.errors import TouchstoneError
from touchstone.options import Options
from touchstone.output import STATE_DIR
from touchstone.store.remote import Mirror, Unusable

PAUSE_S: Final = 3.0
REST: Final = 3
"""So many times as long as a look takes we wait until the next one."""


class Elsewhere:
    """The other side of a site's runs, if they have one."""

    def __init__(self, options: Options, note: Callable[[str], None]) -> None:
        """Looks there for the first time. Raises TouchstoneError if the address can never be used."""
        self._note = note
        self._said: set[str] = set()
        self._fault: str | None = None
        self._lock = threading.Lock()
        self.address = options.remote
        self._mirror = None if options.remote is None else Mirror(options.remote, options.state_home / STATE_DIR)
        if self._mirror is not None:
            self._mirror.prepare()
            self.look(first=True)

    def check(self) -> None:
        """Raises TouchstoneError if the last look went wrong."""
        if self._fault is not None:
            raise TouchstoneError(self._fault)

    def look(self, *, first: bool = False) -> bool:
        """Fetch what is new. True: it went wrong now and not before, or the other way round."""
        if self._mirror is None:
            return False
        with self._lock:
            before, self._fault = self._fault, None
            try:
                notes = self._mirror.pull(self._note).notes
            except TouchstoneError as error:
                if first and isinstance(error, Unusable):
                    raise
                self._fault = str(error)
            else:
                for line in notes:
                    if line not in self._said:
                        self._note(line)
                self._said = set(notes)
            return self._fault != before


def keep_looking(current: Callable[[], Elsewhere], rebuild: Callable[[], object], stop: threading.Event) -> None:
    """Look again and again until `stop` is set; `rebuild` where no change of files would tell of a change."""
    pause = PAUSE_S
    while not stop.wait(pause):
        began = time.monotonic()
        if current().look():
            rebuild()
        pause = max(PAUSE_S, REST * (time.monotonic() - began))
