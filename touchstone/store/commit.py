"""Many writers, one fsync: for a log whose lines come from several tasks at once.

An fsync takes milliseconds, in which the event loop could serve every other call. It runs in a thread, and one covers
all lines that were written before it began.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from touchstone.store.write import JsonlWriter

if TYPE_CHECKING:
    from pydantic import BaseModel


class GroupCommit:
    """Appends to one log from one event loop."""

    def __init__(self, log: JsonlWriter, writers: int) -> None:
        """`writers`: how many tasks append at once. A single one waits for its fsync without a thread."""
        self._log = log
        self._threaded = writers > 1
        self._turn = asyncio.Lock()
        self._written = self._synced = 0

    async def append(self, model: BaseModel) -> None:
        """One line, on disk once this returns. Raises MachineError."""
        if not self._threaded:
            self._log.append(model)
            return
        self._log.append_unsynced(model)
        self._written += 1
        mine = self._written
        async with self._turn:  # who waited here may find its line synced with the one before it
            if self._synced < mine:
                upto = self._written
                await asyncio.to_thread(self._log.sync)
                self._synced = upto
