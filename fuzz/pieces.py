"""Bytes as a stream of choices: what a fuzzer mutates, a check reads as numbers, pieces and texts. Pure."""

from __future__ import annotations


class Choices:
    """Takes choices from the front of the data; when it is used up, everything is 0 or empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def number(self, below: int) -> int:
        """One byte (two for larger ranges) as a number in [0, below)."""
        return int.from_bytes(self.take(1 if below <= 256 else 2), "big") % below

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += len(found)
        return found

    def rest(self) -> bytes:
        return self.take(self.left)

    def text(self) -> str:
        """Up to the next NUL byte."""
        end = self._data.find(b"\0", self._at)
        end = len(self._data) if end < 0 else end
        found = self._data[self._at : end]
        self._at = min(len(self._data), end + 1)
        return found.decode("utf-8", "replace")


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces, cut at these places (any integers; taken modulo the length)."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]
