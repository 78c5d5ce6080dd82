"""Reading what a client asks, with an end to its length and to its time: nobody holds a thread by being slow."""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPException
from typing import Any, Final

HEAD_S: Final = 10.0
"""For the whole head of a request, from its first byte on; and for the wait until the next request begins."""
MAX_TARGET: Final = 8 * 1024
"""Bytes of a request line."""
MAX_HEAD: Final = 32 * 1024
"""Bytes of a request line and its headers."""
DRAIN_S: Final = 1.0
DRAIN_BYTES: Final = 1024 * 1024


class HeadTooLarge(HTTPException):
    """More headers than anybody needs; http.server answers 431."""


class HeadReader(io.RawIOBase):
    """The receiving side of a connection, request by request."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.expect()

    def expect(self) -> None:
        """A new request may begin."""
        self._left = MAX_HEAD
        self._until: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises TimeoutError and HeadTooLarge."""
        if self._left <= 0:
            raise HeadTooLarge
        left = HEAD_S if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        count = self._socket.recv_into(memoryview(buffer)[: self._left])
        if self._until is None:
            self._until = time.monotonic() + HEAD_S
        self._left -= count
        return count


def drain(connection: socket.socket) -> None:
    """Take what is still coming, for a moment: closed at once, the connection would be reset under our answer."""
    until, taken = time.monotonic() + DRAIN_S, 0
    try:
        connection.shutdown(socket.SHUT_WR)
        while taken < DRAIN_BYTES and (left := until - time.monotonic()) > 0:
            connection.settimeout(left)
            got = len(connection.recv(64 * 1024))
            if got == 0:
                return
            taken += got
    except OSError:
        return
