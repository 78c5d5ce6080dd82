"""One writer a bundle, by an operating-system lock: it dies with its process, so there is no stale lock to delete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from touchstone.errors import BusyError
from touchstone.store.write import machine_error, refuse_link, replace_file

LOCK_NAME: Final = ".lock"
HOLDER_NAME: Final = ".lock.json"
"""Beside the lock, not inside: Windows lets nobody read a locked file."""


@contextmanager
def exclusive(bundle: Path, command: str) -> Iterator[None]:
    """Hold the bundle for writing. Raises BusyError, which says what holds it."""
    lock = FileLock(bundle / LOCK_NAME, timeout=0)
    try:
        refuse_link(bundle / LOCK_NAME)
        lock.acquire()
    except Timeout:
        raise BusyError(f"{bundle}: {_holder(bundle)} is writing here; wait until it ends, or stop it") from None
    except OSError as error:
        raise machine_error(bundle, error) from error
    holder = bundle / HOLDER_NAME
    try:
        with suppress(OSError):
            replace_file(holder, json.dumps({"pid": os.getpid(), "command": command}).encode("utf-8"))
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()


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
