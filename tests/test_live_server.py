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
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.live import heads
from touchstone.live.hub import BACKLOG, HISTORY, MAX_PATHS, Hub
from touchstone.live.marks import marks_of, trimmed
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

    def __init__(self, server: Server, last: str | None = None, header: bool = True, page: str | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.server_port), timeout=30)
        target = "/events" if header or last is None else f"/events?last={last}"
        target = target if page is None else f"/events?page={quote(page)}"
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

    def change(self) -> dict[str, Any]:
        """The data of the next event."""
        return dict(json.loads(self.event()["data"]))

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


def test_pages_are_watched_as_long_as_they_are_open() -> None:
    hub = Hub("s")
    first, _ = hub.join(None, "a.html")
    again, _ = hub.join(None, "a.html")
    hub.join(None)
    assert hub.watched == {"a.html"}
    hub.leave(first)
    assert hub.watched == {"a.html"}
    hub.leave(again)
    assert hub.watched == frozenset()


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


def raw(server: Server, request: bytes) -> list[bytes]:
    """What comes back for these bytes, until the server closes the connection; split where an answer begins."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall(request)
        got = b""
        while data := connection.recv(65536):
            got += data
    return [b"HTTP/1.1 " + each for each in got.split(b"HTTP/1.1 ")[1:]]


H = b"Host: localhost\r\n"
END = H + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        pytest.param(b"\x00\xff\x16\x03\x01" * 50 + b"\r\n\r\n", [400], id="bytes"),
        pytest.param(b"GET / HTTP/1.1\r\n" + H + b"X: y\r\n" * 10_000 + b"\r\n", [431], id="ten thousand headers"),
        pytest.param(b"GET / HTTP/1.1\r\n" + H + b"X: " + b"y" * 100_000 + b"\r\n\r\n", [431], id="a long header"),
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + H + b"\r\n", [414], id="a long target"),
        pytest.param(b"GET / HTTP/9.9\r\n" + H + b"\r\n", [505], id="a version of the future"),
        pytest.param(b"GET /\r\n\r\n", [400], id="a version of the past"),
        pytest.param(b"GET / HTTP/1.0\r\n" + H + b"\r\n", [200], id="HTTP 1.0"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", [421], id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\n" + H + b"Host: evil.example\r\n\r\n", [400], id="two hosts"),
        pytest.param(b"GET //[ HTTP/1.1\r\n" + END, [404], id="half an address"),
        pytest.param(b"GET http://[/ HTTP/1.1\r\n" + END, [400], id="no address"),
        pytest.param(b"GET / HTTP/1.1\r\n" + H + b"\r\nGET /style.css HTTP/1.1\r\n" + END, [200, 200], id="pipelined"),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + H + b"Content-Length: 30\r\n\r\nGET /style.css HTTP/1.1\r\n" + END,
            [200],
            id="a request in a body",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 500_000, [405], id="a flood"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n", [200], id="chunks"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", [405], id="may I?"
        ),
        pytest.param(
            b"GET /events HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n" + END, [403], id="another site's stream"
        ),
    ],
)
def test_every_request_gets_its_answer_and_its_end(
    served: tuple[Server, Path], request_bytes: bytes, statuses: list[int]
) -> None:
    server, _ = served
    assert [int(answer[9:12]) for answer in raw(server, request_bytes)] == statuses
    assert ask(server, "/")[0] == 200


@pytest.mark.parametrize("request_bytes", [b"\r\n", b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost"])
def test_a_client_that_ends_early_is_no_news(served: tuple[Server, Path], request_bytes: bytes) -> None:
    server, _ = served
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            while connection.recv(65536):
                pass
    assert ask(server, "/")[0] == 200


def test_a_head_that_trickles_is_cut_off(served: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "HEAD_S", 0.4)
    server, _ = served
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection, suppress(OSError):
        for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
        pytest.fail("the server listened for as long as somebody spoke")
    assert ask(server, "/")[0] == 200


def test_who_opens_a_connection_and_says_nothing_loses_it(
    served: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_S", 0.2)
    with socket.create_connection(("127.0.0.1", served[0].server_port), timeout=10) as connection:
        assert connection.recv(1) == b""


def test_200_streams_get_every_change_beside_50_that_never_read(served: tuple[Server, Path]) -> None:
    server, _ = served
    deaf = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(50)]
    for connection in deaf:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(b"GET /events HTTP/1.1\r\n" + H + b"\r\n")
    streams = [Stream(server) for _ in range(200)]
    wait_for(lambda: server.hub.listeners == 250, 60)
    paths = [f"runs/r/judge/verdicts-{number}.html" for number in range(200)]
    for build in range(24):
        server.hub.publish([*paths, f"build-{build}"])
        time.sleep(0.02)
    for stream in streams:
        for build in range(24):
            assert f"build-{build}" in stream.change()["paths"]
        stream.close()
    assert ask(server, "/")[0] == 200
    for connection in deaf:
        connection.close()


# -- what is pushed to open pages

ROWS = b"".join(b'<tr id="r%d"><td>row %d</td></tr>\n' % (n, n) for n in range(50))
WITH_ROWS = PAGE.replace(b"hello", b"<table><tbody>\n" + ROWS + b"</tbody></table>")


def test_an_open_page_is_told_what_is_new_on_it(served: tuple[Server, Path]) -> None:
    server, root = served
    page = root / "index.html"
    page.write_bytes(WITH_ROWS)
    body = ask(server, "/")[2].decode()
    named = re.search(r'data-marks="([^"]*)"', body)
    assert named is not None
    marks = named[1].split(" ")
    assert len(marks) == len(set(marks)) == 50
    stream, other = Stream(server, page="index.html"), Stream(server, page="runs/a b/index.html")
    wait_for(lambda: server.hub.listeners == 2)
    newer = WITH_ROWS.replace(b"row 0<", b"changed<").replace(
        b'<tr id="r0"', b'<tr id="new"><td>new</td></tr>\n<tr id="r0"'
    )
    page.write_bytes(newer)
    server.hub.publish(["index.html"])
    html = stream.change()["html"]
    assert re.search('<tr id="new" data-h="[0-9a-f]{12}"><td>new</td></tr>', html)
    assert re.search('<tr id="r0" data-h="[0-9a-f]{12}"><td>changed</td></tr>', html)
    assert f'<tr id="r1" data-h="{marks[1]}"></tr>' in html and "row 1<" not in html
    assert "html" not in other.change()
    page.unlink()
    server.hub.publish(["index.html"])
    assert "html" not in stream.change()
    stream.close()
    other.close()


some_rows = st.lists(
    st.tuples(st.integers(0, 9), st.text(alphabet="ab<&\n é", max_size=5)), unique_by=lambda row: row[0]
)


@given(some_rows, some_rows)
def test_what_is_trimmed_and_what_was_known_are_the_whole_page(
    before: list[tuple[int, str]], after: list[tuple[int, str]]
) -> None:
    def page(rows: list[tuple[int, str]]) -> bytes:
        cells = "".join(f'<tr class="x" id="r{n}"><td>{escape(text)}</td></tr>\n' for n, text in rows)
        return f"<html><table>{cells}</table></html>".encode()

    old, new = page(before), page(after)
    less, marks = trimmed(new, marks_of(old))
    assert marks == marks_of(new)
    rows = {each[1]: each[0] for each in re.finditer(rb'<tr class="x" id="(r\d)">.*?</tr>', old, re.DOTALL)}
    whole = re.sub(rb'<tr id="(r\d)" data-h="[0-9a-f]+"></tr>', lambda found: rows[found[1]], less)
    assert re.sub(rb' data-h="[0-9a-f]+"', b"", whole) == new


# -- faults


def test_a_fault_stands_in_for_every_page_until_it_is_mended(served: tuple[Server, Path]) -> None:
    server, _ = served
    stream = Stream(server)
    wait_for(lambda: server.hub.listeners == 1)
    server.hub.fail("own/index.html:3: <b> is not closed")
    assert stream.event()["event"] == "reset"
    for target in ("/", "/runs/a%20b/", "/missing.html", "/de/index.html"):
        status, headers, body = ask(server, target)
        assert status == 503 and headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"own/index.html:3: &lt;b&gt; is not closed" in body and b"/-/live.js" in body
    assert b'lang="de"' in ask(server, "/de/index.html")[2] and b'lang="en"' in ask(server, "/")[2]
    assert ask(server, "/style.css")[0] == 200 and ask(server, "/-/fault.css")[0] == 200
    server.hub.fail("own/index.html:3: <b> is not closed")
    server.hub.publish([])
    assert stream.event()["event"] == "reset"
    assert ask(server, "/")[0] == 200
    server.hub.publish([])
    server.hub.publish(["index.html"])
    assert stream.change()["paths"] == ["index.html"]
    stream.close()


def test_more_changes_than_can_be_named_are_a_reset() -> None:
    hub = Hub("s")
    listener, _ = hub.join(None)
    hub.publish(map(str, range(MAX_PATHS + 1)))
    change = listener.get(1)
    assert change is not None and change.paths is None
    hub.publish(["a"])
    assert [missed.paths for missed in hub.join("s-0")[1]] == [None]
    assert [missed.paths for missed in hub.join("s-1")[1]] == [("a",)]


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
