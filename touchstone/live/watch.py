"""What changed on disk: notifications where the system gives them, polling where it does not.

watchfiles' own polling misses a second append within one second, so where polling is needed we compare the sizes and
times of the files ourselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from watchfiles import watch

STEP_MS: Final = 5
DEBOUNCE_MS: Final = 50
POLL_S: Final = 0.02


def changes(folders: list[Path], stop: threading.Event, *, poll: bool) -> Iterator[None]:
    """One item each time something below `folders` changed, until `stop` is set."""
    if poll:
        yield from _polled(folders, stop)
        return
    try:
        # Our own temporary files and editors' are noise, but they come before a rename that is none.
        for _ in watch(
            *folders,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            stop_event=stop,
            rust_timeout=200,
            yield_on_timeout=False,
            raise_interrupt=False,
        ):
            yield
    except OSError:
        # The limit of inotify watches shows as a file that is not found.
        yield from _polled(folders, stop)


def _polled(folders: list[Path], stop: threading.Event) -> Iterator[None]:
    before = _snapshot(folders)
    while not stop.wait(POLL_S):
        now = _snapshot(folders)
        if now != before:
            before = now
            yield


def _snapshot(folders: list[Path]) -> dict[str, tuple[int, int, int]]:
    seen: dict[str, tuple[int, int, int]] = {}
    stack = [os.fspath(folder) for folder in folders]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    stat = entry.stat(follow_symlinks=False)
                    seen[entry.path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        except OSError:
            continue
    return seen


def keep_building(folders: list[Path], rebuild: Callable[[], object], stop: threading.Event, *, poll: bool) -> None:
    """Call `rebuild` after each change, until `stop` is set. `rebuild` handles its own errors."""
    for _ in changes(folders, stop, poll=poll):
        rebuild()
