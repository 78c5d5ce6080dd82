"""Server-sent events out of bytes that are cut anywhere. Pure.

Follows the event stream format of the WHATWG: lines end with LF, CR or CRLF, several `data` lines belong to one event,
an empty line ends it, a line that begins with a colon is a comment. Memory is bounded by `max_bytes` per event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

MAX_EVENT_BYTES: Final = 8 * 1024 * 1024

_LINE_COST: Final = 64
"""What a kept line costs besides its bytes, so that a million short ones count for what they are."""


class EventTooLong(ValueError):
    """One event is longer than can be right."""


class EventCutter:
    """Feed it bytes, get the data of each complete event.

    Besides `data`, the field `error` is passed on: older llama.cpp servers report a failed stream in it.
    """

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []  # of the line not yet ended; joined once, or trickled bytes cost n²
        self._size = 0
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, data: bytes) -> Iterable[bytes]:
        """The data of every event that these bytes complete. Raises EventTooLong."""
        if data.startswith(b"data: ") and data.find(b"\n") == len(data) - 2 and data.endswith(b"\n\n"):
            # Nearly always a chunk is one event; there are thousands of them.
            inside = self._pieces or self._data or self._after_cr or b"\r" in data or len(data) > self._max_bytes
            if not inside:
                return (data[6:-2],)
        return self._feed(data)

    def _feed(self, data: bytes) -> Iterator[bytes]:
        if self._after_cr and data:  # an empty chunk says nothing of what follows the CR
            data = data.removeprefix(b"\n")
            self._after_cr = False
        for line in data.splitlines(keepends=True):
            bare = line.rstrip(b"\r\n")
            if bare:
                self._pieces.append(bare)
                self._size += len(bare)
                if self._size > self._max_bytes:
                    raise EventTooLong(f"an event of the stream is longer than {self._max_bytes} bytes")
            if len(bare) < len(line):
                self._after_cr = data.endswith(b"\r")
                if self._pieces:
                    self._line()
                elif self._data:
                    yield self._event()

    def close(self) -> Iterator[bytes]:
        """The data of an event whose closing empty line never came."""
        if self._pieces:
            self._line()
        if self._data:
            yield self._event()

    def _line(self) -> None:
        line = b"".join(self._pieces)
        self._pieces.clear()
        name, _, value = line.partition(b":")
        if name in (b"data", b"error"):
            self._data.append(value.removeprefix(b" "))
            self._size += _LINE_COST
        else:
            self._size -= len(line)  # comments and other fields are not kept

    def _event(self) -> bytes:
        data, self._data, self._size = self._data, [], 0
        return b"\n".join(data)
