"""Looking at live pages from outside: requests, event streams, processes and what is left of them."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil


def ask(url: str, method: str = "GET", host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """One request, no redirect followed; raises OSError if nobody answers."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        connection.request(method, parts.path, headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


def page(url: str) -> str:
    """A page that has to be there."""
    status, _, body = ask(url)
    assert status == 200, f"{url}: {status}"
    return body.decode()


def answers(url: str) -> bool:
    """Whether a page is there."""
    with suppress(OSError):
        return ask(url)[0] == 200
    return False


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


class Tab:
    """An open page, as far as the server sees it: its event stream."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((str(parts.hostname), int(parts.port or 80)), timeout=15)
        self._socket.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._file = self._socket.makefile("rb")
        while self._file.readline() not in (b"\r\n", b""):
            pass
        self._file.readline()
        self._file.readline()
        self._file.readline()

    def change(self) -> list[str] | None:
        """The paths of the next change; None if the stream ended."""
        try:
            for line in self._file:
                if line.startswith(b"data: "):
                    return list(json.loads(line[6:])["paths"])
        except ConnectionError:
            pass
        return None

    def kill(self) -> None:
        """As a browser that crashes: no farewell."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._file.close()
        self._socket.close()


@contextmanager
def watching(bundle: Path, view: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The monitor as a process, and the address of its root."""
    channel = {"judge": "judge_events.jsonl", "eval": "events.jsonl"}[view]
    process = subprocess.Popen(
        [sys.executable, "-m", "touchstone.webmon", "--port", "0"]  # noqa: RUF005
        + ["--bundle", str(bundle), "--events", channel, "--view", view, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline()
        assert port.strip().isdigit(), process.communicate()
        yield process, f"http://127.0.0.1:{int(port)}/"
    finally:
        put_away(process)


def put_away(process: subprocess.Popen[str]) -> None:
    """End a process, however far it is, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def monitors_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The monitor processes that a running command has, zombies included."""
    with suppress(psutil.Error):
        return [child for child in psutil.Process(process.pid).children() if is_monitor(child)]
    return []


def is_monitor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() == psutil.STATUS_ZOMBIE or "touchstone.webmon" in process.cmdline()
    return False


def gone(process: psutil.Process) -> bool:
    """Whether a process is no more; one that was orphaned and not reaped by anybody counts as gone."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
