"""Requests on a raw socket: an answer or a closed connection, nothing from outside the folder; the server lives on."""

from __future__ import annotations

import re
import socket
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from touchstone.live.hub import Hub
from touchstone.live.server import Server, folder, listen

SECRET: Final = b"not for you"
STATUS: Final = re.compile(rb"HTTP/1\.[01] (200|304|400|404|405|408|413|414|421|431|501|503|505) ")
BARE: Final = re.compile(rb"[45]\d\d [A-Z][A-Za-z ]+\n")
"""What the standard library makes of a request without a version: an answer of the time before status lines."""
TIMEOUT_S: Final = 5.0


@lru_cache(maxsize=1)
def server() -> Server:
    """One for all checks; it ends with the process."""
    root = Path(tempfile.mkdtemp(prefix="touchstone-fuzz-"))
    site = root / "site"
    (site / "runs" / "a b").mkdir(parents=True)
    for path in ("index.html", "404.html", "runs/a b/index.html"):
        (site / path).write_bytes(b"<!doctype html><html><head><title>t</title></head><body>hello</body></html>")
    (root / "secret.txt").write_bytes(SECRET)
    (site / "link.txt").symlink_to(root / "secret.txt")
    running = listen("127.0.0.1", 0, folder(site), Hub("s"), b"/* live */", frozenset())
    running.start()
    return running


def ask(data: bytes) -> bytes:
    """What comes back to these bytes until the connection ends, or an event stream has begun."""
    found = b""
    with socket.create_connection(("127.0.0.1", server().server_port), timeout=TIMEOUT_S) as connection:
        try:
            connection.sendall(data)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)  # the server may have had enough before
            while piece := connection.recv(65536):
                found += piece
                if b"text/event-stream" in found and b"\n\n" in found.partition(b"\r\n\r\n")[2]:
                    break
        except ConnectionError:
            pass
    return found


def check(data: bytes) -> None:
    found = ask(data)
    assert SECRET not in found
    assert b"Traceback" not in found
    head, _, body = found.partition(b"\r\n\r\n")
    if BARE.fullmatch(found):
        head, body = b"", found
    else:
        assert not found or STATUS.match(found), found[:80]
    assert b"\n" not in head.replace(b"\r\n", b"")
    assert len(found) < 10_000_000, len(found)
    if body.startswith(b"<!doctype"):
        assert b"hello" in body


def alive() -> bool:
    """Whether the server still answers as it should."""
    return ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")
