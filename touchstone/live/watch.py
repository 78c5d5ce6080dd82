"""What changed on disk: notifications where the system gives them, polling where it does not.

watchfiles' own polling misses a second append within one second, so where polling is needed we compare the sizes and
times of the files ourselves.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from watchfiles import watch

STEP_MS: Final = 5
DEBOUNCE_MS: Final = 50
POLL_S: Final = 0.02


REST_S: Final = 5.0
"""A run that was silent for so long has rested: what is site-wide follows."""
WAKE_MS: Final = 200

Changed = frozenset[Path]


def changes(folders: list[Path], stop: threading.Event, *, poll: bool) -> Iterator[Changed]:
    """What changed below `folders`, until `stop` is set; an empty set now and then where nothing did."""
    if poll:
        yield from _polled(folders, stop)
        return
    try:
        # Our own temporary files and editors' are noise, but they come before a rename that is none.
        for found in watch(
            *folders,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            stop_event=stop,
            rust_timeout=WAKE_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            yield frozenset(Path(path) for _, path in found)
    except OSError:
        # The limit of inotify watches shows as a file that is not found.
        yield from _polled(folders, stop)


def _polled(folders: list[Path], stop: threading.Event) -> Iterator[Changed]:
    before = _snapshot(folders)
    while not stop.wait(POLL_S):
        now = _snapshot(folders)
        yield frozenset(Path(path) for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        before = now


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


def keep_building(
    folders: list[Path], rebuild: Callable[[Changed | None], bool], stop: threading.Event, *, poll: bool
) -> None:
    """Call `rebuild` after each change, until `stop` is set. `rebuild` handles its own errors.

    It is given what changed, and says whether that left something for later; when all has been quiet for a while it
    is called with None, for everything.
    """
    due: float | None = None
    for changed in changes(folders, stop, poll=poll):
        if changed:
            due = time.monotonic() + REST_S if rebuild(changed) else None
        elif due is not None and time.monotonic() >= due:
            due = None
            rebuild(None)
