"""A run that grows while somebody looks: the command as a process, appends to its logs, a wire that can be cut."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.conftest import Cli
from tests.making import PACK, keys, make_bundle, verdict
from tests.test_serve import running

LONG = "First of all it says what was asked. " * 12


class Growing:
    """A bundle that is being judged, and the server that shows it."""

    def __init__(self, url: str, bundle: Path, models: list[str], judged: int) -> None:
        self.url, self.bundle = url, bundle
        self.monitor = url + "runs/r/judge/index.html"
        self.rows = keys(models, [v["id"] for v in PACK["variants"]], [p["id"] for p in PACK["prompts"]])
        self.judged = judged

    def append(self, count: int = 1, rationale: str = "Newly come.", score: int = 3, **fields: Any) -> None:
        """The next verdicts, as `judge` writes them."""
        for _ in range(count):
            line = {**verdict(self.rows[self.judged], self.judged, score, rationale, "judge-a"), **fields}
            with (self.bundle / "judge_events.jsonl").open("a") as log:
                log.write(json.dumps({"event": "verdict", **line}) + "\n")
            self.judged += 1

    @property
    def said(self) -> str:
        """What the monitor says first once all that was appended is shown."""
        return f"{self.judged} of {len(self.rows)} verdicts are in."


@contextmanager
def growing(cli: Cli, *args: str, judged: int = 60, models: int = 4, rationale: str = LONG) -> Iterator[Growing]:
    """`touchstone serve` on a bundle that is judged in part."""
    names = [f"m{number}" for number in range(models)]
    bundle = make_bundle(
        cli.home / "runs" / "r", models=names, judged=judged, rationale=rationale, score=lambda i: i % 5 + 1
    )
    with running(cli, "serve", "--port", "0", "--no-open", *args) as (_, url):
        yield Growing(url, bundle, names, judged)


def shows(page: Page, text: str) -> None:
    """Waits until the page's main part holds this text."""
    page.wait_for_function("text => document.querySelector('main').textContent.includes(text)", arg=text)


def live(page: Page, state: str = "live") -> None:
    """Waits until the live line says so."""
    page.wait_for_selector(f".live[data-state={state}]")


def wait_for(condition: Callable[[], bool], page: Page) -> None:
    """Waits while the browser goes on."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        page.wait_for_timeout(20)


class Wire:
    """Stands between a browser and a server, notes what is asked, and can be cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (str(parts.hostname), int(parts.port or 0))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._open: set[socket.socket] = set()
        self._up = True
        self.asked: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """All connections break, and new ones too."""
        self._up = False
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._up = True

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._up:
                near.close()
                continue
            far = socket.create_connection(self._target)
            self._open |= {near, far}
            for a, b, note in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=(a, b, note), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, note: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if note:
                    self.asked.append(data)
                sink.sendall(data)
        for each in (source, sink):
            self._open.discard(each)
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()


@contextmanager
def wired(url: str) -> Iterator[Wire]:
    """The server at `url`, behind a wire."""
    wire = Wire(url)
    try:
        yield wire
    finally:
        wire.close()
