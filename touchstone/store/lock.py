"""One writer a bundle, by an operating-system lock: it dies with its process, so there is no stale lock to delete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from touchstone.errors import BusyError
from touchstone.store.write import HALF_WRITTEN, machine_error, refuse_link, replace_file

LOCK_NAME: Final = ".lock"
HOLDER_NAME: Final = ".lock.json"
"""Beside the lock, not inside: Windows lets nobody read a locked file."""


@contextmanager
def exclusive(bundle: Path, command: str, *, new_log: Path | None = None) -> Iterator[None]:
    """Hold the bundle for writing. Raises BusyError, which says what holds it.

    `new_log`: of a bundle that was made for this command alone. If the command fails before that log holds anything,
    the bundle would only be in the way, and is removed.
    """
    lock = FileLock(bundle / LOCK_NAME, timeout=0)
    try:
        refuse_link(bundle / LOCK_NAME)
        lock.acquire()
    except Timeout:
        raise BusyError(f"{bundle}: {_holder(bundle)} is writing here; wait until it ends, or stop it") from None
    except OSError as error:
        raise machine_error(bundle, error) from error
    holder = bundle / HOLDER_NAME
    useless: Path | None = None
    try:
        _sweep(bundle)
        with suppress(OSError):
            replace_file(holder, json.dumps({"pid": os.getpid(), "command": command}).encode("utf-8"))
        yield
    except BaseException:
        if new_log is not None and not (new_log.is_file() and new_log.stat().st_size):
            useless = _out_of_sight(bundle)
        raise
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()
        if useless is not None:
            shutil.rmtree(useless, ignore_errors=True)


def _sweep(bundle: Path) -> None:
    """Remove half-written files: nobody else writes here, so whoever began them was killed."""
    with suppress(OSError):
        for path in list(bundle.iterdir()):
            if HALF_WRITTEN.fullmatch(path.name):
                path.unlink()


def _out_of_sight(bundle: Path) -> Path:
    """The bundle under a name that nobody looks for, while we hold it: somebody might write into it just after."""
    aside = bundle.with_name(f".{bundle.name}.tmp")
    if os.name != "nt":  # where no folder is renamed that has an open file in it
        with suppress(OSError):
            return bundle.rename(aside)
    return bundle


def refuse_busy(bundle: Path) -> None:
    """Raises BusyError if somebody writes to the bundle at the moment. Nothing is left behind, nothing is made."""
    path = bundle / LOCK_NAME
    if not path.is_file() or path.is_symlink():
        return
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(f"{bundle}: {_holder(bundle)} is writing here; wait until it ends, or stop it") from None
    except OSError:
        return  # what cannot be locked here, nobody can be writing to from here
    lock.release()


def _holder(bundle: Path) -> str:
    try:
        data = json.loads((bundle / HOLDER_NAME).read_text(encoding="utf-8"))
        return f"`touchstone {data['command']}` (process {int(data['pid'])})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another touchstone process"
