"""The tiny web server: the pages of one folder, and a stream that says which of them changed.

It trusts nobody: loopback unless told otherwise, only GET and HEAD, only names that stand for this machine (a page from
elsewhere could otherwise read ours by pointing its own name at 127.0.0.1), only files below the folder, and no client
can hold a thread by being slow.
"""

from __future__ import annotations

import errno
import io
import ipaddress
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty
from socketserver import BaseServer
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlsplit

from touchstone.i18n import NAMES
from touchstone.live.fault import STYLE, STYLE_URL, fault_page
from touchstone.live.heads import MAX_TARGET, HeadReader, drain
from touchstone.live.hub import Change, Hub
from touchstone.live.marks import Pushed
from touchstone.live.presence import PROOF_URL, proof
from touchstone.live.script import SCRIPT_URL, with_script

HEARTBEAT_S: Final = 10.0
WRITE_S: Final = 10.0
PIECE: Final = 256 * 1024
"""So many bytes a client has to take within WRITE_S."""
MAX_CONNECTIONS: Final = 512

# Not from the system: Windows registries call .js text/plain.
MIME: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".xml": "application/xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}

METHODS: Final = frozenset(("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"))
"""Those that exist and are refused; GET and HEAD are the ones we know."""

NOT_NOW: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO))
"""What keeps a file from being read that may well be there."""
BREATH_S: Final = 0.05

Get = Callable[[str], bytes | None]
"""Path below the site's root (no leading slash) to the file's bytes; None if there is none."""


def folder(root: Path) -> Get:
    """Serves files below `root`; links that lead out of it are not there. Raises OSError for NOT_NOW."""
    base = root.resolve()

    def get(path: str) -> bytes | None:
        try:
            target = (base / path).resolve()
            if not target.is_relative_to(base) or not target.is_file():
                return None
            return target.read_bytes()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in NOT_NOW:
                raise
            return None

    return get


def safe_path(raw: str) -> str | None:
    """A request target as a path below the root: decoded once, `index.html` for folders; None if it is none."""
    try:
        text = unquote_to_bytes(urlsplit(raw).path).decode("utf-8")
    except (UnicodeDecodeError, ValueError):
        return None
    parts = text.split("/")
    if parts[0] != "" or any(part in ("..", ".") or "\\" in part or "\0" in part or ":" in part for part in parts):
        return None
    if "" in parts[1:-1]:
        return None
    path = "/".join(parts[1:])
    return path + "index.html" if path == "" or path.endswith("/") else path


def known_host(header: str | None, allowed: frozenset[str]) -> bool:
    """Whether a Host header names this machine: localhost, an IP literal, or an allowed name."""
    if header is None:
        return False
    try:
        host = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost") or host in allowed:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Server(ThreadingHTTPServer):
    """Serves a site and its event stream."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    home: str | None = None
    """Where `/` leads, for a site that has no start page of its own; a path below the root."""
    token: str | None = None
    """What only we and the file that announces us know."""
    lang: str = "en"
    """Language of the pages at the root."""

    def __init__(self, address: tuple[str, int], get: Get, hub: Hub, script: bytes, allow: frozenset[str]) -> None:
        """Binds at once; raises OSError if the port is taken. `allow`: host names that are let in besides loopback."""
        self.get = get
        self.pushed = Pushed(get)
        self.hub = hub
        self.script = script
        self.allow = allow
        self.places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        # http.server would look up our name in the DNS here, which can take seconds.
        if os.name == "posix":
            # On Windows it would take a port that another process uses.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where a browser finds the site's root."""
        host = self.server_name
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{shown}:{self.server_port}/"

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            # No file is left for the connection, which stays in the queue: not to ask for it all the time.
            time.sleep(BREATH_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def start(self) -> threading.Thread:
        """Serve in a thread of its own until `stop`."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        self.hub.close()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "touchstone"
    sys_version = ""
    # Head and body go out separately: the body would wait for the delayed acknowledgement of the head, 40 ms.
    disable_nagle_algorithm = True

    def __init__(self, request: Any, client_address: Any, server: BaseServer) -> None:
        super().__init__(request, client_address, server)

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._head = HeadReader(self.connection)
        self.rfile = io.BufferedReader(self._head)
        self._refused = False

    def finish(self) -> None:
        super().finish()
        if self._refused:
            drain(self.connection)

    def handle_one_request(self) -> None:
        """As in http.server, but with an end to everything."""
        self._head.expect()
        self.requestline = self.request_version = self.command = ""
        try:
            self.raw_requestline = self.rfile.readline(MAX_TARGET + 1)
            if not self.raw_requestline:
                self.close_connection = True
            elif len(self.raw_requestline) > MAX_TARGET:
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            elif self.parse_request():
                self._dispatch()
        except TimeoutError:
            self.close_connection = True

    def _dispatch(self) -> None:
        self.connection.settimeout(WRITE_S)
        if "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0") != "0":
            # What follows is no request; nobody needs a body here.
            self.close_connection = self._refused = True
        if self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.BAD_REQUEST)
        elif self.command in ("GET", "HEAD"):
            self._answer(body=self.command == "GET")
        elif self.command in METHODS:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def handle_expect_100(self) -> bool:
        """Nobody is invited to send a body."""
        return True

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the terminal belongs to the run."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Plain, short, and the end of the connection; nothing of the request is echoed."""
        status = HTTPStatus(code)
        self.close_connection = self._refused = True
        if self.request_version in ("", "HTTP/0.9"):
            self.request_version = "HTTP/1.0"  # without a version http.server would leave out status and headers
        self.connection.settimeout(WRITE_S)
        self._send(status, f"{status.value} {status.phrase}\n".encode(), "text/plain; charset=utf-8", body=True)

    def _answer(self, *, body: bool) -> None:
        hosts = self.headers.get_all("Host", [])
        try:
            target = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if len(hosts) > 1:
            self.send_error(HTTPStatus.BAD_REQUEST)
        elif not known_host(hosts[0] if hosts else None, self.server.allow):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif target.path == "/events":
            # Another site could not read the stream, but it could hold our connections.
            if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
                self.send_error(HTTPStatus.FORBIDDEN)
            else:
                self._stream(parse_qs(target.query), body)
        elif target.path == SCRIPT_URL:
            self._send(HTTPStatus.OK, self.server.script, MIME[".js"], body=body)
        elif target.path == STYLE_URL:
            self._send(HTTPStatus.OK, STYLE, MIME[".css"], body=body)
        elif self.server.token is not None and target.path == PROOF_URL:
            challenge = next(iter(parse_qs(target.query).get("challenge", [])), "")
            self._send(HTTPStatus.OK, proof(self.server.token, challenge).encode(), MIME[".txt"], body=body)
        elif self.server.home is not None and target.path == "/":
            self._send(HTTPStatus.FOUND, b"", MIME[".txt"], body=body, location="/" + quote(self.server.home))
        else:
            self._file(safe_path(self.path), body)

    def _file(self, path: str | None, body: bool) -> None:
        at = self.server.hub.id
        try:
            data = None if path is None else self.server.get(path)
        except OSError:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        status, marks = HTTPStatus.OK, None
        fault = self.server.hub.fault
        if fault is not None and (path is None or data is None or path.endswith(".html")):
            lang = (path or "").partition("/")[0]
            status, path = HTTPStatus.SERVICE_UNAVAILABLE, "fault.html"
            data = fault_page(fault, lang if lang in NAMES else self.server.lang)
        elif path is None or data is None:
            status, path, data = HTTPStatus.NOT_FOUND, "404.html", self.server.get("404.html") or b"404\n"
        elif path.endswith(".html"):
            marks = self.server.pushed.loaded(path, data)
        if path.endswith(".html"):
            data = with_script(data, at, marks)
        self._send(status, data, MIME.get(Path(path).suffix.lower(), "application/octet-stream"), body=body)

    def _send(self, status: HTTPStatus, data: bytes, kind: str, *, body: bool, location: str | None = None) -> None:
        self.send_response(status)
        self._headers(kind)
        if location is not None:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(data)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if body and self.command != "HEAD":
            for start in range(0, len(data), PIECE):
                self.wfile.write(data[start : start + PIECE])

    def _headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        # Not `no-store`: that would keep pages out of the cache for going back.
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if kind == MIME[".svg"]:
            # A picture of the docs may be a program too, and would run when it is opened by itself.
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")

    # -- the event stream

    def _stream(self, query: Mapping[str, list[str]], body: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self._headers("text/event-stream; charset=utf-8")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        if body:
            last = self.headers.get("Last-Event-ID") or next(iter(query.get("last", [])), None)
            self._events(last, next(iter(query.get("page", [])), None))

    def _events(self, last: str | None, page: str | None) -> None:
        """What changes, until either side ends it; `page`: the one that is open there, sent along as it changes."""
        hub = self.server.hub
        listener, missed = hub.join(last, page)
        try:
            self._write(f"retry: 1000\nid: {hub.id}\n\n")
            for change in missed:
                self._write(encode(change, self._news(change, page)))
            while not listener.lost:
                try:
                    change_or_end = listener.get(HEARTBEAT_S)
                except Empty:
                    self._write(": still here\n\n")
                    continue
                if change_or_end is None:
                    return
                self._write(encode(change_or_end, self._news(change_or_end, page)))
        except OSError:
            return
        finally:
            hub.leave(listener)

    def _news(self, change: Change, page: str | None) -> str | None:
        if page is None or change.paths is None or page not in change.paths:
            return None
        return self.server.pushed.since(page, change.id)

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode("utf-8"))
        self.wfile.flush()


def encode(change: Change, html: str | None = None) -> str:
    """A change as an event of the stream; `html`: what is new on the listener's own page."""
    data: dict[str, object] = {"build": change.build}
    if change.paths is None:
        return f"id: {change.id}\nevent: reset\ndata: {json.dumps(data)}\n\n"
    data["paths"] = change.paths
    if html is not None:
        data["html"] = html
    return f"id: {change.id}\nevent: change\ndata: {json.dumps(data, ensure_ascii=True)}\n\n"


def listen(host: str, port: int, get: Get, hub: Hub, script: bytes, allow: frozenset[str], tries: int = 20) -> Server:
    """A bound server; the next free port where `port` is taken. Raises OSError if there is none."""
    last = min(port + tries, 65536) - 1 if port else 0
    for each in range(port, last + 1):
        try:
            return Server((host, each), get, hub, script, allow)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or each == last:
                raise
    raise AssertionError("unreachable")
