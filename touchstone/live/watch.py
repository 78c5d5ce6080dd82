"""What changed on disk: notifications where the system gives them, polling where it does not.

watchfiles' own polling misses a second append within one second, so where polling is needed we compare the sizes and
times of the files ourselves: those of the logs that grow all the time, the whole tree now and then. Folders are
watched, never single files: a file that is saved by renaming would take its watch with it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from watchfiles import Change
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

STEP_MS: Final = 8
"""How often notifications are fetched while all is quiet."""
BUSY_STEP_MS: Final = 1
"""How often while something grows: each step is a delay, and costs a little."""
BUSY_S: Final = 10.0
DEBOUNCE_MS: Final = 50
"""The longest that changes are gathered under a writer that never pauses."""
WAKE_MS: Final = 200
POLL_S: Final = 0.02
SCAN_S: Final = 0.5
"""How often the whole tree is looked at where nobody tells of changes; less often where that takes long."""
HOT: Final = 64
"""So many logs, those that changed last, are compared each time."""
REST_S: Final = 5.0
"""A run that was silent for so long has rested: what is site-wide follows."""

# Mounts whose other side changes files without a word to us.
DEAF: Final = frozenset(
    ("9p", "drvfs", "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "afpfs", "webdav", "davfs", "ceph",
     "glusterfs", "lustre", "vboxsf", "vmhgfs", "prl_fs", "virtiofs", "fakeowner", "osxfs", "grpcfuse", "fuse")
)  # fmt: skip

Changed = frozenset[Path]
Stamp = tuple[int, int, int]
"""Size, time of change in ns, inode."""


@dataclass(frozen=True)
class Watched:
    """What is watched; all paths absolute."""

    folders: tuple[Path, ...]
    """With all that is below them."""
    files: tuple[Path, ...] = ()
    """Single files in folders that are not watched; looked at now and then."""
    ours: tuple[Path, ...] = ()
    """Folders that we write ourselves: what changes there is no news."""


def deaf(folder: Path) -> str | None:
    """The kind of file system of a folder where changes may go unnoticed; None where they are told."""
    mounts = [(part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True)]
    return deaf_among(mounts, folder)


def deaf_among(mounts: list[tuple[str, str]], folder: Path) -> str | None:
    """As `deaf`, for (mount point, kind) pairs."""
    above = [(len(Path(point).parts), kind) for point, kind in mounts if folder.is_relative_to(point)]
    # Of two on the same place, the later one hides the other.
    kind = max(reversed(above), key=lambda pair: pair[0], default=(0, ""))[1].lower()
    return kind if kind in DEAF or kind.startswith("fuse.") else None


def changes(
    watched: Callable[[], Watched], stop: threading.Event, *, poll: bool, note: Callable[[str], None]
) -> Iterator[Changed | None]:
    """What changed, until `stop` is set: paths; an empty set now and then where nothing did; None: look at everything.

    `watched` may answer differently later; then that is watched. `note` is told why we poll, where nobody asked for it.
    """
    told: set[str] = set()

    def tell(why: str) -> None:
        if why not in told:
            told.add(why)
            note(why)

    while not stop.is_set():
        now = watched()
        why = None if poll else next(filter(None, map(_deaf_note, now.folders)), None)
        if why is not None:
            tell(why)
        there = all(folder.is_dir() for folder in now.folders)
        source = _notified if there and not poll and why is None else _polled
        try:
            yield from _while_same(source(now, stop), now, watched)
        except (OSError, WatchfilesRustInternalError) as error:
            # The limit of inotify watches shows as a file that is not found.
            if all(folder.is_dir() for folder in now.folders):
                tell(f"the system's notifications cannot be used ({error}); comparing sizes of files instead")
                poll = True


def _deaf_note(folder: Path) -> str | None:
    kind = deaf(folder)
    if kind is None:
        return None
    return f"{folder} lies on a file system that may not tell of changes ({kind}); comparing sizes of files instead"


def _while_same(
    source: Iterator[Changed | None], now: Watched, watched: Callable[[], Watched]
) -> Iterator[Changed | None]:
    """From `source`, with the single files looked at too, until something else is to be watched."""
    roots = [_place(folder) for folder in now.folders]
    files = [_stamp(path) for path in now.files]
    due = 0.0
    for changed in source:
        yield _news(changed, now)
        if watched() != now:
            return
        if time.monotonic() < due:
            continue
        due = time.monotonic() + SCAN_S
        before, files = files, [_stamp(path) for path in now.files]
        differing = frozenset(path for path, a, b in zip(now.files, before, files, strict=True) if a != b)
        if differing:
            yield differing
        if [_place(folder) for folder in now.folders] != roots:
            # Whoever watched the old folder hears nothing of the one that took its place.
            return


def _news(changed: Changed | None, now: Watched) -> Changed | None:
    if not changed:
        return changed
    # What we write may have a folder in it that others write, and that is watched.
    return frozenset(
        path for path in changed if not (ours := _nearest(path, now.ours)) or _nearest(path, now.folders) > ours
    )


def _nearest(path: Path, folders: tuple[Path, ...]) -> int:
    """How deep that of `folders` lies which is next above `path`; 0 if there is none."""
    return max((len(folder.parts) for folder in folders if path.is_relative_to(folder)), default=0)


def _place(folder: Path) -> tuple[int, int] | None:
    try:
        stat = folder.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _stamp(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


# -- told by the system


def _notified(now: Watched, stop: threading.Event) -> Iterator[Changed | None]:
    busy_until = 0.0
    with RustNotify([os.fspath(folder) for folder in now.folders], False, False, 0, True, True) as notify:
        # What changed before we listened.
        yield None
        while True:
            step = BUSY_STEP_MS if time.monotonic() < busy_until else STEP_MS
            found = notify.watch(DEBOUNCE_MS, step, WAKE_MS, stop)
            if isinstance(found, str):
                if found != "timeout":
                    return
                yield frozenset()
            else:
                if any(kind == Change.deleted for kind, _ in found):
                    # Some programs save by deleting and adding: what is gone may come back at once.
                    more = notify.watch(DEBOUNCE_MS, BUSY_STEP_MS, DEBOUNCE_MS, stop)
                    found = found if isinstance(more, str) else found | more
                busy_until = time.monotonic() + BUSY_S
                yield frozenset(Path(path) for _, path in found)


# -- found out by ourselves


def _polled(now: Watched, stop: threading.Event) -> Iterator[Changed | None]:
    tree = _scan(now)
    hot = _hottest(tree)
    yield None
    due = time.monotonic() + SCAN_S
    while not stop.wait(POLL_S):
        began = time.monotonic()
        if began < due:
            changed = [path for path in hot if _differs(tree, path)]
        else:
            before, tree = tree, _scan(now)
            hot = _hottest(tree)
            took = time.monotonic() - began
            due = time.monotonic() + max(SCAN_S, 20 * took)
            changed = [path for path in before.keys() | tree.keys() if before.get(path) != tree.get(path)]
        yield frozenset(map(Path, changed))


def _differs(tree: dict[str, Stamp], path: str) -> bool:
    """Whether a file differs from what `tree` says, which then says how it is."""
    before, stamp = tree.pop(path, None), _stamp(Path(path))
    if stamp is not None:
        tree[path] = stamp
    return before != stamp


def _hottest(tree: dict[str, Stamp]) -> list[str]:
    logs = [path for path in tree if path.endswith(".jsonl")]
    return sorted(logs, key=lambda path: tree[path][1], reverse=True)[:HOT]


def _scan(now: Watched) -> dict[str, Stamp]:
    seen: dict[str, Stamp] = {}
    stack = [os.fspath(folder) for folder in now.folders]
    ours = {os.fspath(folder) for folder in now.ours}
    while stack:
        with suppress(OSError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    stat = entry.stat(follow_symlinks=False)
                    seen[entry.path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
                    if entry.is_dir(follow_symlinks=False) and entry.path not in ours:
                        stack.append(entry.path)
    return seen


def keep_building(
    watched: Callable[[], Watched],
    rebuild: Callable[[Changed | None], bool],
    stop: threading.Event,
    *,
    poll: bool,
    note: Callable[[str], None],
) -> None:
    """Call `rebuild` after each change, until `stop` is set. `rebuild` handles its own errors.

    It is given what changed (None: anything may have), and says whether that left something for later; when all has
    been quiet for a while it is called with None, for everything.
    """
    due: float | None = None
    for changed in changes(watched, stop, poll=poll, note=note):
        if changed is None or changed:
            due = time.monotonic() + REST_S if rebuild(changed) else None
        elif due is not None and time.monotonic() >= due:
            due = time.monotonic() + REST_S if rebuild(None) else None
