"""The tiny server over real sockets: who is let in, what is served, what the event stream tells."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.live.hub import BACKLOG, HISTORY, Hub
from touchstone.live.script import with_script
from touchstone.live.server import Server, folder, known_host, listen, safe_path

PAGE = b"<!doctype html><html><head><title>t</title></head><body>hello</body></html>"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    root = tmp_path / "public"
    (root / "runs" / "a b").mkdir(parents=True)
    for path in ("index.html", "404.html", "runs/a b/index.html"):
        (root / path).write_bytes(PAGE)
    (root / "style.css").write_text("body{}")
    (tmp_path / "secret.txt").write_text("secret")
    server = listen("127.0.0.1", 0, folder(root), Hub("s"), b"/* live */", frozenset({"box.lan"}))
    server.start()
    try:
        yield server, root
    finally:
        server.stop()


def ask(
    server: Server, target: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    try:
        connection.request(method, target, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("target", ["/", "/index.html", "/runs/a%20b/", "/runs/a%20b/index.html", "/index.html?x=1"])
def test_pages_are_served_with_the_live_script(served: tuple[Server, Path], target: str) -> None:
    status, headers, body = ask(served[0], target)
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-cache" and headers["X-Content-Type-Options"] == "nosniff"
    found = re.search(rb'<script src="/-/live.js" data-build="s-0" [^>]* defer></script></head>', body)
    assert found is not None and body.replace(found[0], b"</head>") == PAGE


def test_head_has_the_headers_of_get_and_no_body(served: tuple[Server, Path]) -> None:
    _, get, body = ask(served[0], "/style.css")
    status, head, nothing = ask(served[0], "/style.css", "HEAD")
    assert status == 200 and nothing == b"" and head["Content-Length"] == get["Content-Length"] == str(len(body))
    assert ask(served[0], "/events", "HEAD")[2] == b""


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.txt", "/%2e%2e/secret.txt", "/runs/../../secret.txt", "/runs/%2e%2e%2f%2e%2e%2fsecret.txt",
        "/..%5csecret.txt", "//secret.txt", "/runs//index.html", "/%00", "/runs/%ff", "/C:/x", "/.", "/missing.html",
        "/index.html/", "/runs",
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_and_nothing_strange(served: tuple[Server, Path], target: str) -> None:
    status, _, body = ask(served[0], target)
    assert status == 404 and b"secret" not in body


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_links_that_leave_the_folder_are_not_there(served: tuple[Server, Path]) -> None:
    server, root = served
    (root / "out.txt").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to(root.parent)
    (root / "in.css").symlink_to(root / "style.css")
    assert ask(server, "/out.txt")[0] == 404 and ask(server, "/up/secret.txt")[0] == 404
    assert ask(server, "/in.css")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_only_get_and_head(served: tuple[Server, Path], method: str) -> None:
    status, headers, _ = ask(served[0], "/", method)
    assert (status, headers.get("Allow")) == ((501, None) if method == "BREW" else (405, "GET, HEAD"))


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True), ("localhost:8000", True), ("127.0.0.1:8000", True), ("[::1]:80", True),
        ("192.168.1.7:8000", True), ("box.lan", True), ("BOX.LAN:1", True), ("x.localhost", True),
        ("evil.example", False), ("localhost.evil.example", False), ("127.0.0.1.evil.example", False),
        ("", False), (None, False), ("[", False), ("@", False), ("a b", False),
    ],
)  # fmt: skip
def test_host_names(host: str | None, known: bool) -> None:
    assert known_host(host, frozenset({"box.lan"})) is known


def test_a_foreign_host_header_is_refused(served: tuple[Server, Path]) -> None:
    status, _, body = ask(served[0], "/", headers={"Host": "evil.example"})
    assert status == 421 and b"hello" not in body
    assert ask(served[0], "/events", headers={"Host": "evil.example"})[0] == 421


@given(st.text())
def test_no_request_target_leads_out(text: str) -> None:
    path = safe_path(text)
    if path is not None:
        assert not path.startswith("/") and ".." not in path.split("/") and "\\" not in path and "\0" not in path


class Stream:
    """An event stream as a browser reads it."""

    def __init__(self, server: Server, last: str | None = None, header: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.server_port), timeout=5)
        target = "/events" if header or last is None else f"/events?last={last}"
        extra = f"Last-Event-ID: {last}\r\n" if header and last is not None else ""
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n".encode())
        self.file = self.socket.makefile("rb")
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self.hello = self.event()

    def event(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        while line := self.file.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


def test_the_stream_tells_each_build_with_its_id(served: tuple[Server, Path]) -> None:
    server, _ = served
    stream = Stream(server)
    assert stream.hello["id"] == "s-0"
    server.hub.publish(["b.html", "a.html"])
    event = stream.event()
    assert event["id"] == "s-1" and event["event"] == "change"
    assert json.loads(event["data"]) == {"build": 1, "paths": ["a.html", "b.html"]}
    stream.close()

    def gone() -> bool:
        server.hub.publish(["c"])  # only writing to it shows that a client has left
        return server.hub.listeners == 0

    wait_for(gone)


@pytest.mark.parametrize("header", [True, False], ids=["Last-Event-ID", "query"])
def test_who_comes_back_gets_what_was_missed(served: tuple[Server, Path], header: bool) -> None:
    server, _ = served
    for path in ("a", "b", "c"):
        server.hub.publish([path])
    stream = Stream(server, "s-1", header)
    event = stream.event()
    assert event["event"] == "change" and json.loads(event["data"]) == {"build": 3, "paths": ["b", "c"]}
    stream.close()


@pytest.mark.parametrize("last", ["other-1", "s-99", "s-", "s--1", "", "x" * 5000, "s-1\u00b2"], ids=lambda x: x[:8])
def test_an_id_that_is_not_ours_means_reset(last: str) -> None:
    hub = Hub("s")
    hub.publish(["a"])
    _, missed = hub.join(last)
    assert [change.paths for change in missed] == [None]


def test_who_was_away_too_long_starts_afresh() -> None:
    hub = Hub("s")
    for _ in range(HISTORY + 5):
        hub.publish(["a"])
    assert [change.paths for change in hub.join("s-1")[1]] == [None]
    assert hub.join(hub.id)[1] == ()


def test_who_does_not_read_is_let_go_and_the_others_are_not_delayed() -> None:
    hub = Hub("s")
    slow, _ = hub.join(None)
    quick, _ = hub.join(None)
    for number in range(BACKLOG + 10):
        hub.publish([str(number)])
        assert quick.get(1) is not None
    assert slow.lost and not quick.lost and hub.listeners == 1


def test_a_slow_client_does_not_hold_the_others(served: tuple[Server, Path]) -> None:
    server, _ = served
    slow = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(50)]
    for connection in slow:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: loc")
    assert ask(server, "/")[0] == 200
    for connection in slow:
        connection.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\xff\x16\x03\x01" * 50 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
    ],
    ids=["bytes", "headers", "long target", "version", "empty", "body announced"],
)
def test_nonsense_ends_the_connection_and_the_server_lives_on(
    served: tuple[Server, Path], request_bytes: bytes
) -> None:
    server, _ = served
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as connection:
        try:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass
    assert ask(server, "/")[0] == 200


def test_the_next_free_port_is_taken(served: tuple[Server, Path]) -> None:
    server, root = served
    other = listen("127.0.0.1", server.server_port, folder(root), Hub("t"), b"", frozenset())
    assert other.server_port != server.server_port
    other.server_close()


def test_stop_ends_open_streams(tmp_path: Path) -> None:
    server = listen("127.0.0.1", 0, folder(tmp_path), Hub("s"), b"", frozenset())
    server.start()
    stream = Stream(server)
    wait_for(lambda: server.hub.listeners == 1)
    threading.Thread(target=server.stop).start()
    assert stream.file.readline() == b""
    stream.close()


def test_the_script_is_added_once() -> None:
    assert with_script(b"<head></head><body>&lt;/head> </head></body>", "s-1").count(b"<script") == 1
