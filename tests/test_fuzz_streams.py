"""Clients of the event stream that do what clients do: come back with any id, stop reading, vanish at any byte."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from touchstone.live.hub import Hub
from touchstone.live.server import Server, folder, listen

HELLO = b"GET /events HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("streams")
    (root / "index.html").write_text("<html><head></head><body>x</body></html>")
    running = listen("127.0.0.1", 0, folder(root), Hub("s"), b"", frozenset())
    running.start()
    yield running
    running.stop()


def connect(server: Server, request: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=10)
    connection.sendall(request)
    return connection


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    found = b""
    while mark not in found:
        piece = connection.recv(65536)
        if not piece:
            break
        found += piece
    return found


def no_listeners(server: Server) -> bool:
    """Whether all streams are given back; only writing to them shows that a client has left."""
    end = time.monotonic() + 30
    while server.hub.listeners and time.monotonic() < end:
        server.hub.publish(["x"])
        time.sleep(0.01)
    return not server.hub.listeners


# An id is one line of a header, as long as it fits there.
ids = st.one_of(
    st.sampled_from(["s-0", "s-1", "s-999999999999999999", "s--1", "S-1", "s-\u0661", "-", "s", "s-1-1", "s-0x1"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60),
)


@pytest.mark.timeout(120)
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ids, min_size=1, max_size=3), st.booleans())
def test_whatever_id_comes_back_the_stream_tells_what_is_new(server: Server, lasts: list[str], query: bool) -> None:
    for last in lasts:
        encoded = last.encode("latin-1", "replace")
        lines = b"" if query else b"Last-Event-ID: " + encoded + b"\r\n"
        start = (
            HELLO.replace(b"/events", b"/events?last=" + b"".join(b"%%%02x" % byte for byte in encoded))
            if query
            else HELLO
        )
        connection = connect(server, start + lines + b"\r\n")
        try:
            head = read_until(connection, b"\n\n")
            assert head.startswith(b"HTTP/1.1 200 "), head[:80]
            page = f"page-{time.monotonic_ns()}.html"
            server.hub.publish([page])
            body = read_until(connection, page.encode())
            events = re.findall(rb"^data: (.*)$", head + body, re.MULTILINE)
            assert any(page in (json.loads(data).get("paths") or ()) for data in events)
        finally:
            connection.close()
    assert no_listeners(server)


@pytest.mark.timeout(120)
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(HELLO) + 2), st.integers(0, 400), st.booleans())
def test_a_client_may_vanish_at_any_byte(server: Server, sent: int, received: int, reset: bool) -> None:
    connection = connect(server, (HELLO + b"\r\n")[:sent])
    if sent == len(HELLO) + 2:
        left = received
        while left > 0 and (piece := connection.recv(min(left, 64))):
            left -= len(piece)
            server.hub.publish(["a", "b"])
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    assert no_listeners(server)
    other = connect(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert read_until(other, b"</html>").startswith(b"HTTP/1.1 200 ")
    other.close()


def test_those_that_never_read_hold_nobody_up(server: Server, tmp_path: Path) -> None:
    silent = []
    for _ in range(30):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", server.server_port))
        connection.sendall(HELLO + b"\r\n")
        silent.append(connection)
    reader = connect(server, HELLO + b"\r\n")
    read_until(reader, b"\n\n")
    paths = [f"a-rather-long-name-of-a-page-{number}.html" for number in range(400)]
    for number in range(60):
        server.hub.publish([*paths, f"round-{number}.html"])
        assert f"round-{number}.html".encode() in read_until(reader, f"round-{number}.html".encode())
    for connection in [*silent, reader]:
        connection.close()
    assert no_listeners(server)
