"""The wish to stop, told to whoever waits. Pure but for the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """This was not begun, or not begun once more, because the run is to end."""


class StopSign:
    """Once set, nothing new is begun; what is under way may end by itself. Used from one event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return self._event.is_set()

    def then(self, callback: Callable[[], object]) -> None:
        """Call this when the sign is set; at once if it is set already."""
        if self:
            callback()
        else:
            self._callbacks.append(callback)

    def set(self) -> None:
        if not self:
            self._event.set()
            for callback in self._callbacks:
                callback()

    async def sleep(self, seconds: float) -> None:
        """A pause between two tries. Raises Stopped as soon as the sign is set: the next try would be a new call."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        raise Stopped

    async def unless_set(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns. It is dropped, and Stopped raised, as soon as the sign is set."""
        task = asyncio.create_task(work)
        self.then(task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if not self or (this is not None and this.cancelling()):
                raise
            raise Stopped from None
