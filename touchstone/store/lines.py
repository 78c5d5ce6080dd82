"""Logs as lines: cut anywhere, read only from where we left, never past the last newline.

A reader meets half lines (the writer is in the middle of one), replaced files (a clean rewrite, an editor's atomic
save), files that shrank, and lines of a gigabyte. What it never does: guess. A line exists once its newline does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from touchstone.jsonsource import MAX_LINE_BYTES

K = TypeVar("K")

CHUNK: Final = 1 << 20
_TAIL: Final = 64


@dataclass(frozen=True, slots=True)
class Line:
    """One finished line."""

    index: int
    """From 0, blank and broken lines counted, since the file was last read from its start."""
    offset: int
    """Of its first byte in the file."""
    data: bytes | None
    """Without the newline; None for a line over the limit, which was not kept."""


class LineCutter:
    """Cuts a stream of chunks at newlines; holds at most one unfinished line. Pure."""

    def __init__(self, offset: int = 0, index: int = 0, limit: int = MAX_LINE_BYTES) -> None:
        self.offset = offset
        """Of the first byte that no finished line has taken."""
        self.index = index
        self._limit = limit
        self._held = bytearray()
        self._dropped = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that `chunk` finishes."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            yield self._finish(chunk[start:end])
            start = end + 1
        rest = chunk[start:]
        if len(self._held) + len(rest) + self._dropped > self._limit:
            self._dropped += len(self._held) + len(rest)
            self._held.clear()
        else:
            self._held += rest

    def _finish(self, last: bytes) -> Line:
        size = self._dropped + len(self._held) + len(last)
        data = None if size > self._limit else bytes(self._held) + last if self._held else last
        line = Line(self.index, self.offset, data)
        self._held.clear()
        self._dropped = 0
        self.offset += size + 1
        self.index += 1
        return line

    @property
    def pending(self) -> int:
        """Bytes after the last newline seen so far."""
        return self._dropped + len(self._held)


class LogTail:
    """Follows one log file. Each `read` gives the lines that came since the last one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.half = False
        """The file ends inside a line (as of the last read)."""
        self._rewind()

    def _rewind(self) -> None:
        self.offset = 0
        self.index = 0
        self._identity: tuple[int, int] | None = None
        self._tail = b""
        self._left: tuple[int, int] = (0, 0)
        """Size and time of change when we last read."""

    def replaced(self) -> bool:
        """Whether what was read so far is no longer what the file begins with. Rewinds if so."""
        if self._identity is None:
            return False
        if self._same():
            return False
        self._rewind()
        return True

    def _same(self) -> bool:
        if not self.path.is_file():
            return False
        try:
            with self.path.open("rb") as file:
                stat = os.fstat(file.fileno())
                if (stat.st_dev, stat.st_ino) != self._identity or stat.st_size < self.offset:
                    return False
                size, changed = self._left
                if stat.st_size == size and stat.st_mtime_ns != changed:
                    # An editor that saves in place: nothing was appended, so something else was changed.
                    return False
                # Overwritten in place with other, longer content: the bytes before our offset tell.
                file.seek(self.offset - len(self._tail))
                return file.read(len(self._tail)) == self._tail
        except OSError:
            return False

    def read(self) -> Iterator[Line]:
        """The lines finished since the last call. A missing file has none. Call `replaced` first."""
        if not self.path.is_file():
            # Missing, or no file at all: to open a pipe would wait for somebody to write into it.
            return
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            stat = os.fstat(file.fileno())
            self._identity = (stat.st_dev, stat.st_ino)
            file.seek(self.offset)
            cutter = LineCutter(self.offset, self.index)
            while chunk := file.read(CHUNK):
                for line in cutter.feed(chunk):
                    self.offset, self.index = cutter.offset, cutter.index
                    yield line
            self.half = cutter.pending > 0
            file.seek(max(0, self.offset - _TAIL))
            self._tail = file.read(min(_TAIL, self.offset))
            stat = os.fstat(file.fileno())
            self._left = (stat.st_size, stat.st_mtime_ns)


def read_at(path: Path, offset: int) -> bytes | None:
    """The line that starts at `offset`; None if there is no finished line any more. Raises OSError."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(offset)
        data = file.readline(MAX_LINE_BYTES + 1)
    return data[:-1] if data.endswith(b"\n") else None


NEAR: Final = 1 << 16
"""Bytes; lines that are no further apart are read in one go."""


def read_many(path: Path, places: Mapping[K, int]) -> dict[K, bytes]:
    """The lines that start at these offsets, by key; without those that are no finished line any more.

    Lines near each other are read together. Raises OSError.
    """
    found: dict[K, bytes] = {}
    with path.open("rb") as file:
        for key, offset in sorted(places.items(), key=lambda item: item[1]):
            if not 0 <= offset - file.tell() <= NEAR:
                file.seek(offset)
            elif offset > file.tell():
                file.read(offset - file.tell())
            data = file.readline(MAX_LINE_BYTES + 1)
            if data.endswith(b"\n"):
                found[key] = data[:-1]
    return found
