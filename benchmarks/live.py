"""The live figures: from an append to the row in an open page, what it costs the server, and how many can watch."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil

from benchmarks.content import Shape, Store, keys, verdict_line
from benchmarks.figures import Figure
from benchmarks.measure import Failed, environment, proportional, touchstone
from benchmarks.quantiles import quantile

SMALL: Final = Shape(5, 4, 50, 2, answers=True, short=True, spare=1000)
"""1,000 verdicts; 1,000 answers wait for theirs."""
LARGE: Final = Shape(5, 4, 50, 101, answers=True, short=True, spare=1000)
"""100,000 verdicts."""
START_LIMIT_S: Final = 600.0
GRACE_S: Final = 20.0
"""How long after the last append its row may still come."""


class Bundle:
    """A bundle that can be judged further, a verdict at a time."""

    def __init__(self, home: Path, store: Store, shape: Shape) -> None:
        self.home = home
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(store.runs("live", shape), home / "runs")
        self.path = next((home / "runs").iterdir())
        self._left = islice(keys(shape), shape.verdicts, None)
        self._next = shape.verdicts
        self._log = self.path / "judgements.jsonl"

    @property
    def monitor(self) -> str:
        """The path of its judge page."""
        return f"runs/{self.path.name}/judge/index.html"

    def line(self) -> tuple[tuple[str, str, str, int], bytes]:
        """The next key to be judged and the line of its verdict."""
        key = next(self._left)
        self._next += 1
        text = verdict_line(key, self._next, 1 + self._next % 5, f"Judged while you watch, number {self._next}.")
        return key, text.encode() + b"\n"

    def again(self, number: int) -> bytes:
        """A line that judges the first key anew: a change, but no further verdict."""
        key = ("model-0-7b-q4", "v0", "p000", 0)
        return verdict_line(key, 10**6 + number, 1 + number % 5, f"Judged anew, time {number}.").encode() + b"\n"

    def append(self, data: bytes) -> float:
        """Appends as the judge does; seconds since the epoch just before."""
        with self._log.open("ab", buffering=0) as file:
            now = time.time()
            file.write(data)
        return now


@dataclass
class Served:
    """A running `touchstone serve`."""

    url: str
    process: psutil.Process

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 80)

    def cpu_s(self) -> float:
        """Processor time so far, its children's included."""
        total = 0.0
        for process in [self.process, *self.process.children(recursive=True)]:
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        times = self.process.cpu_times()
        return total + times.children_user + times.children_system

    def memory(self) -> int:
        return proportional(self.process.pid)


@contextmanager
def served(home: Path) -> Iterator[Served]:
    """`touchstone serve` on what lies in `home`. Raises Failed if it does not come up."""
    command = touchstone("serve", "--runs", "runs", "--out", "site", "--port", "0", "--no-open")
    with subprocess.Popen(
        command,
        cwd=home,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        timer = threading.Timer(START_LIMIT_S, process.kill)
        timer.start()
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        timer.cancel()
        try:
            if not url.startswith("http"):
                raise Failed(f"touchstone serve did not come up within {START_LIMIT_S:.0f} s")
            yield Served(url, psutil.Process(process.pid))
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


# -- append to DOM


def row_id(key: tuple[str, str, str, int]) -> str:
    from touchstone.contracts.lines import Key
    from touchstone.pages.common import row_id as of

    return of(Key(*key))


WATCH: Final = """
(() => {
  const wanted = new Set(), seen = {};
  window.__want = (ids) => ids.forEach((id) => wanted.add(id));
  window.__seen = seen;
  const look = () => {
    const now = performance.timeOrigin + performance.now();
    for (const id of wanted) if (document.getElementById(id)) { seen[id] = now; wanted.delete(id); }
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
})();
"""


@dataclass
class Watched:
    """What appending while a browser looks on came to."""

    ms: list[float] = field(default_factory=list)
    """Append to DOM."""
    missing: int = 0
    cpu_ms: float = 0.0
    """Of the server, for each append."""
    memory: int = 0
    """Of the server, at rest before the first append."""


def watch(bundle: Bundle, count: int, every_s: float) -> Watched:
    """Append `count` verdicts while Chromium has the judge page open."""
    from playwright.sync_api import sync_playwright

    from tools.browser import find

    result = Watched()
    with served(bundle.home) as server, sync_playwright() as playwright:
        time.sleep(2)
        result.memory = server.memory()
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        page = browser.new_page()
        page.add_init_script(WATCH)
        page.goto(server.url + bundle.monitor, wait_until="load")
        time.sleep(1.5)
        lines = [bundle.line() for _ in range(count)]
        ids = [row_id(key) for key, _ in lines]
        page.evaluate("(ids) => window.__want(ids)", ids)
        before = server.cpu_s()
        appended = []
        due = time.monotonic()
        for _, line in lines:
            due += every_s
            page.wait_for_timeout(max(0.0, 1000 * (due - time.monotonic())))
            appended.append(bundle.append(line))
        end = time.monotonic() + GRACE_S
        while (seen := page.evaluate("window.__seen")).keys() < set(ids) and time.monotonic() < end:
            page.wait_for_timeout(100)
        result.cpu_ms = 1000 * (server.cpu_s() - before) / count
        result.ms = [seen[id_] - 1000 * at for id_, at in zip(ids, appended, strict=True) if id_ in seen]
        result.missing = count - len(result.ms)
        browser.close()
    return result


def dom(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """200 appends at 5/s into bundles with 1,000 and 100,000 verdicts."""
    count, large = (40, Shape(5, 4, 50, 11, answers=True, short=True, spare=1000)) if quick else (200, LARGE)
    results = []
    for name, shape in (("live-small", SMALL), ("live-large", large)):
        bundle = Bundle(work / name, store, shape)
        result = watch(bundle, count, 0.2)
        shutil.rmtree(bundle.home)
        case = f"append to DOM, {shape.verdicts:,} verdicts"
        missing = f"; {result.missing} of {count} rows never came" if result.missing else ""
        if not result.ms:
            raise Failed(f"{case}: no row came within {GRACE_S:.0f} s")
        yield Figure(case, "median", statistics.median(result.ms), "ms", 15, note=f"{count} appends at 5/s{missing}")
        yield Figure(case, "95th percentile", quantile(result.ms, 0.95), "ms", 30)
        yield Figure(case, "processor time per append", result.cpu_ms, "ms")
        results.append(result)
    small, big = results
    case = f"{large.verdicts:,} ÷ {SMALL.verdicts:,} verdicts"
    ratio = statistics.median(big.ms) / statistics.median(small.ms)
    yield Figure(case, "append to DOM, median", ratio, "×", 1.3)
    yield Figure(case, "processor time per append", big.cpu_ms / small.cpu_ms, "×", 1.3)
    more = (big.memory - small.memory) / (large.verdicts - SMALL.verdicts)
    note = f"server at rest {small.memory / 1e6:.0f} and {big.memory / 1e6:.0f} MB"
    yield Figure(case, "memory per verdict", more, "B", 150, note=note)


# -- event streams


class Listener:
    """One event stream; knows when each change of one page arrived."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.arrived: list[float] = []
        self.came = asyncio.Event()

    async def run(self, address: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*address, limit=1 << 22)
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionError):
            while line := await reader.readline():
                if line.startswith(b"data: ") and self.page in json.loads(line[6:]).get("paths", ()):
                    self.arrived.append(time.time())
                    self.came.set()
        writer.close()


def delays(appended: list[float], arrived: list[float]) -> list[float | None]:
    """For each append the milliseconds until the next change arrived; None where none did."""
    found: list[float | None] = []
    at = 0
    for moment in appended:
        while at < len(arrived) and arrived[at] < moment:
            at += 1
        found.append(1000 * (arrived[at] - moment) if at < len(arrived) else None)
    return found


async def _listen(server: Served, bundle: Bundle, clients: int, seconds: float, every_s: float) -> list[float | None]:
    listeners = [Listener(bundle.monitor) for _ in range(clients)]
    tasks = [asyncio.create_task(listener.run(server.address)) for listener in listeners]
    await asyncio.sleep(2)
    appended = []
    for number in range(int(seconds / every_s)):
        appended.append(bundle.append(bundle.again(number)))
        await asyncio.sleep(every_s)
    await asyncio.sleep(3)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return [delay for listener in listeners for delay in delays(appended, listener.arrived)]


def _p99(found: list[float | None]) -> tuple[float | None, int]:
    """(99th percentile, how many never came); what never came counts as worse than all others."""
    came = [delay for delay in found if delay is not None]
    missing = len(found) - len(came)
    return (quantile(came, 0.99) if came and missing < len(found) / 100 else None), missing


def streams(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """200 event streams at once, and clients that never read."""
    clients, seconds = (50, 10.0) if quick else (200, 60.0)
    bundle = Bundle(work / "live-streams", store, SMALL)
    case = f"{clients} event streams, {seconds:.0f} s"
    with served(bundle.home) as server:
        p99, missing = _p99(asyncio.run(_listen(server, bundle, clients, seconds, 0.5)))
        yield Figure(case, "append to event, 99th percentile", p99, "ms", 500, note=f"2 appends/s; {missing} missed")
        yield Figure(case, "missed", float(missing), "", 0)
        alone, _ = _p99(asyncio.run(_listen(server, bundle, 1, seconds / 3, 0.1)))
        idle = [_never_reads(server, bundle) for _ in range(50)]
        beside, missing = _p99(asyncio.run(_listen(server, bundle, 1, seconds / 3, 0.1)))
        for connection in idle:
            connection.close()
    case = "50 clients that never read"
    note = f"99th percentile of one client beside them; without them {alone or 0:.0f} ms"
    yield Figure(case, "append to event", beside, "ms", 500, note=note)


def _never_reads(server: Served, bundle: Bundle) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.connect(server.address)
    connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


# -- memory over many changes


async def _change(server: Served, bundle: Bundle, start: int, count: int, listener: Listener) -> int:
    """Changes one after the other, each waited for; how many were told."""
    told = 0
    for number in range(start, start + count):
        listener.came.clear()
        bundle.append(bundle.again(number))
        with suppress(TimeoutError):
            await asyncio.wait_for(listener.came.wait(), 5)
            told += 1
    return told


async def _changes(server: Served, bundle: Bundle, first: int, more: int) -> tuple[int, int, int]:
    """(bytes after the first changes, bytes at the end, changes told)."""
    listener = Listener(bundle.monitor)
    task = asyncio.create_task(listener.run(server.address))
    await asyncio.sleep(1)
    told = await _change(server, bundle, 0, first, listener)
    await asyncio.sleep(1)
    before = server.memory()
    told += await _change(server, bundle, first, more, listener)
    await asyncio.sleep(1)
    after = server.memory()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return before, after, told


def flat(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """Memory of the server over 10,000 changes."""
    first, more = (200, 1000) if quick else (1000, 10_000)
    bundle = Bundle(work / "live-flat", store, SMALL)
    with served(bundle.home) as server:
        started = time.monotonic()
        before, after, told = asyncio.run(_changes(server, bundle, first, more))
        each = 1000 * (time.monotonic() - started) / (first + more)
    case = f"memory over {more:,} changes"
    note = f"{before / 1e6:.1f} → {after / 1e6:.1f} MB, after {first:,} to warm up; {told:,} told; {each:.0f} ms each"
    yield Figure(case, "growth", 100 * (after / before - 1), "%", 1, note=note)
