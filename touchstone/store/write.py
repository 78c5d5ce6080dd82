"""Writing so that a power cut, a full disk or `kill -9` costs at most what was in flight.

Logs: one `write` of a whole line, a flush, and an fsync where the line was expensive. Whole files: written beside and
renamed, so that a reader meets the old or the new one, never half of one.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from touchstone.errors import MachineError

if TYPE_CHECKING:
    from pydantic import BaseModel  # slow to import, and not every writer has models

T = TypeVar("T")

HALF_WRITTEN: Final = re.compile(r"\.(.+)\.([0-9]{1,9})\.tmp")
"""What `replace_file` writes before it renames: the beginning of the file's name, and the number of the process."""
_BEGINNING: Final = 60
"""Characters: at most 240 bytes, and file systems take 255."""
_RENAME_TRIES: Final = 60
_RENAME_PAUSE_S: Final = 0.05

_PLAIN: Final = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again, nothing that was measured is lost",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EROFS: "the file system is read-only; copy the folder to a place that can be written",
    errno.EACCES: "no permission; check who owns the folder and what is in it",
    errno.EPERM: "no permission; check who owns the folder and what is in it",
    errno.ELOOP: "is a symbolic link, which touchstone does not follow; put the file itself in its place",
    errno.EMFILE: "too many open files; raise `ulimit -n` and run the same command again",
}


def machine_error(path: Path, error: OSError) -> MachineError:
    """An operating-system error in plain words: where, what, and the next step."""
    return MachineError(f"{path}: {plain_words(error)}")


def plain_words(error: OSError) -> str:
    """What the system refused, and the next step."""
    return _PLAIN.get(error.errno or 0) or (error.strerror or str(error)).lower()


def refuse_link(path: Path) -> None:
    """A bundle from a stranger must not make us write elsewhere. Raises OSError (ELOOP)."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def retry_locked(action: Callable[[], T]) -> T:
    """Windows refuses to rename or delete a file that somebody is reading; a reader is soon done."""
    for attempt in range(_RENAME_TRIES):
        try:
            return action()
        except PermissionError:
            if os.name != "nt" or attempt == _RENAME_TRIES - 1:
                raise
            time.sleep(_RENAME_PAUSE_S)
    raise AssertionError("unreachable")


def _fresh(path: Path) -> int:
    """A new file, open for writing, in place of what stood there: never the target of a link that a stranger laid."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        path.unlink()
        return os.open(path, flags, 0o666)


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """`path` holds `data` afterwards, or what it held before. Raises OSError."""
    beside = path.with_name(f".{path.name[:_BEGINNING]}.{os.getpid()}.tmp")
    try:
        with os.fdopen(_fresh(beside), "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        retry_locked(lambda: beside.replace(path))
        if sync:
            sync_folder(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """That a file was made or renamed in it is on disk, too, where the system has a way to see to that."""
    if os.name == "nt":
        return
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def sweep(paths: Iterable[Path]) -> None:
    """Remove what processes that are no more left half-written of these files. Raises nothing."""
    import psutil  # takes a while, and few commands need it

    beginnings: dict[Path, set[str]] = {}
    for path in paths:
        beginnings.setdefault(path.parent, set()).add(path.name[:_BEGINNING])
    for folder, names in beginnings.items():
        with suppress(OSError):
            for entry in list(os.scandir(folder)):
                found = HALF_WRITTEN.fullmatch(entry.name)
                if found is not None and found[1] in names and not psutil.pid_exists(int(found[2])):
                    Path(entry.path).unlink()


def save(path: Path, text: str) -> None:
    """A bundle's own artifact: replaced as a whole, safely on disk. Raises MachineError."""
    try:
        replace_file(path, text.encode("utf-8"), sync=True)
    except OSError as error:
        raise machine_error(path, error) from error


def encode(model: BaseModel) -> bytes:
    """A log line: one JSON object, UTF-8, with its newline."""
    return model.model_dump_json().encode("utf-8") + b"\n"


def _half_line(file: int, size: int) -> int:
    """Bytes after the last newline of an open file."""
    end = size
    while end > 0:
        start = max(0, end - 65536)
        os.lseek(file, start, os.SEEK_SET)
        block = os.read(file, end - start)
        cut = block.rfind(b"\n")
        if cut >= 0:
            return size - (start + cut + 1)
        end = start
    return size


class JsonlWriter:
    """Appends lines to one log."""

    def __init__(self, path: Path, *, sync: bool, cut_half: bool) -> None:
        """`sync`: fsync each line. `cut_half`: cut a half last line that a crash left; else it is ended."""
        self.path = path
        self._sync = sync
        self._unsynced = False
        try:
            refuse_link(path)
            fresh = sync and not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            self._mend(cut_half)
            if fresh:
                sync_folder(path.parent)
        except OSError as error:
            raise machine_error(path, error) from error

    def _mend(self, cut_half: bool) -> None:
        size = os.fstat(self._file).st_size
        half = _half_line(self._file, size)
        self._end = os.lseek(self._file, size, os.SEEK_SET)
        if half and cut_half:
            os.ftruncate(self._file, size - half)
            self._end = os.lseek(self._file, size - half, os.SEEK_SET)
        elif half:
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            # A full disk may take half of a line; what stays must end with a whole one.
            os.ftruncate(self._file, self._end)
            os.lseek(self._file, self._end, os.SEEK_SET)
            raise
        self._end += len(data)
        self._unsynced = self._sync

    def append(self, model: BaseModel) -> None:
        """One line, whole or not at all. Raises MachineError."""
        self._append(encode(model))

    def append_unsynced(self, model: BaseModel) -> None:
        """The same; where lines are synced, this one is by the next `sync` or by `close`. Raises MachineError."""
        try:
            self._write(encode(model))
        except OSError as error:
            raise machine_error(self.path, error) from error

    def sync(self) -> None:
        """Every line is on disk afterwards, if this log's lines are to be. Raises MachineError."""
        try:
            if self._unsynced:
                self._unsynced = False
                os.fsync(self._file)
        except OSError as error:
            raise machine_error(self.path, error) from error

    def append_line(self, data: bytes) -> None:
        """The same for a line that is encoded already, without its newline."""
        self._append(data + b"\n")

    def _append(self, data: bytes) -> None:
        try:
            self._write(data)
        except OSError as error:
            raise machine_error(self.path, error) from error
        self.sync()

    def close(self) -> None:
        """Raises MachineError where lines cannot be synced; the file is closed all the same."""
        if self._file < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except MachineError:
            if error is None:  # else what went wrong first is what is told
                raise
