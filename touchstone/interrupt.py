"""Ctrl-C in two steps: once to end in order, twice to end at once.

`asyncio.run` knows only the second. Here the first one sets a `StopSign`; the second cancels what runs, which still
closes its files; a third, for code that does not come back, is Python's own KeyboardInterrupt. SIGTERM arrives here
too, as `cli.main` turns it into SIGINT.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from touchstone.chat.stop import StopSign

T = TypeVar("T")


def run_stoppable(main: Callable[[StopSign], Coroutine[Any, Any, T]]) -> T:
    """What `main` returns. Raises KeyboardInterrupt, once everything is closed, if it was interrupted meanwhile."""
    sign = StopSign()
    presses = 0
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        running: list[asyncio.Task[Any]] = []

        def pressed(signum: int, frame: FrameType | None) -> None:
            nonlocal presses
            presses += 1
            # A handler runs between any two bytecodes: all it may do is to tell the loop.
            if presses == 1:
                loop.call_soon_threadsafe(sign.set)
            elif presses == 2:
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in running])
            else:
                raise KeyboardInterrupt

        async def run() -> T:
            task = asyncio.current_task()
            assert task is not None
            running.append(task)
            return await main(sign)

        try:
            earlier = signal.signal(signal.SIGINT, pressed)
        except ValueError:  # not the main thread: whoever started this one sees to its end
            return runner.run(run())
        try:
            result = runner.run(run())
        except asyncio.CancelledError:
            if presses < 2:
                raise
            raise KeyboardInterrupt from None
        finally:
            signal.signal(signal.SIGINT, earlier)
    if presses:
        raise KeyboardInterrupt
    return result
