"""The live page of a run, seen from the run: starts the monitor process, says where the page is, ends with the run.

Whatever becomes of the monitor, the run goes on: all of this happens in a thread, and trouble is one line on stderr.
The monitor hears of our end by its standard input, however we end; it is taken off the process table at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self
from urllib.parse import quote

from touchstone.live.presence import covering, fetch
from touchstone.slugs import slugs
from touchstone.store.bundles import find_bundles

CHANNELS: Final = {"eval": "events.jsonl", "judge": "judge_events.jsonl"}
START_S: Final = 30.0
"""A page that is not there by then will not come."""
SITE_S: Final = 10.0
"""How long a server that covers the bundle has to show its page before we start one of our own."""
END_S: Final = 3.0
POLL_S: Final = 0.05
PAGE_TIMEOUT_S: Final = 10.0

_OPEN: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"

ViewName = Literal["eval", "judge"]


@dataclass(frozen=True)
class Web:
    """What `--web` was asked for."""

    port: int = 0
    """0: a free one."""
    browser: bool = True
    """Open it."""
    langs: tuple[str, ...] = ("en",)
    timezone: str | None = None
    home: Path = field(default_factory=Path)
    """The folder whose `.touchstone/` tells of running servers."""


class Monitor:
    """The live page of one run; without `web` it does nothing.

    A context that ends with the page: on a terminal, a run that came to its end leaves it up until Ctrl-C.
    """

    def __init__(
        self, view: ViewName, web: Web | None, note: Callable[[str], None], tell: Callable[[str], None]
    ) -> None:
        """`note` gets remarks for people, `tell` the page's address once the page answers."""
        self._view = view
        self._web = web
        self._note = note
        self._tell = tell
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._settled = threading.Event()
        """The page is up, or will not come."""
        self._shown = False
        """The page is up, and it is our process that shows it."""
        self._process: subprocess.Popen[bytes] | None = None
        self._opener: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    # -- for the run

    def open(self, bundle: Path) -> None:
        """The run begins to write into this bundle. Returns at once; a second call changes nothing."""
        if self._web is not None and self._thread is None:
            self._thread = threading.Thread(target=self._guarded, args=(self._web, bundle.resolve()), daemon=True)
            self._thread.start()

    def settle(self) -> None:
        """The run is over: waits until the page's address is told, or it is clear that there will be none."""
        if self._thread is not None:
            self._settled.wait(START_S + SITE_S)

    def _hold(self) -> None:
        """On a terminal, keep our page until Ctrl-C or until its process ends."""
        if not self._shown or self._thread is None or not _on_terminal() or not self._thread.is_alive():
            return
        with suppress(KeyboardInterrupt):
            self._note("the page stays until Ctrl-C")
            while self._thread.is_alive():
                # In short waits: without a timeout Windows would not let Ctrl-C through.
                self._thread.join(0.5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None or issubclass(kind, SystemExit):
                self._hold()
        finally:
            self._close()

    def _close(self) -> None:
        self._closing.set()
        with self._lock:
            processes = [process for process in (self._process, self._opener) if process is not None]
        for process in processes:
            _end(process)
        if self._thread is not None:
            self._thread.join(END_S)

    # -- in the thread

    def _guarded(self, web: Web, bundle: Path) -> None:
        try:
            elsewhere = self._elsewhere(web, bundle)
            if elsewhere is not None:
                self._announce(web, elsewhere)
            elif (process := self._start(web, bundle)) is not None:
                self._attend(web, bundle, process)
        except Exception as error:
            self._say(f"no live page: {error}; the run goes on without it")
        finally:
            self._settled.set()

    def _say(self, text: str) -> None:
        if not self._closing.is_set():
            self._note(text)

    def _elsewhere(self, web: Web, bundle: Path) -> str | None:
        """The page's address in a running `touchstone serve` that covers the bundle."""
        presence = covering(web.home, bundle)
        if presence is None:
            return None
        names = {found.path.resolve(): found.name for found in find_bundles(presence.runs)}
        name = names.get(bundle)
        if name is None:
            return None
        target = self._page(slugs(names.values())[name])
        return presence.url + target if self._answers(presence.url, target, SITE_S) else None

    def _page(self, slug: str) -> str:
        return quote(f"runs/{slug}/{self._view}/index.html")

    def _answers(self, url: str, target: str, within_s: float, process: subprocess.Popen[bytes] | None = None) -> bool:
        """Waits for a page; False if it does not come in time, or its process or the run ends."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and (process is None or process.poll() is None):
            with suppress(OSError):
                if fetch(url, "/" + target, PAGE_TIMEOUT_S)[0] == 200:
                    return True
            if self._closing.wait(POLL_S):
                break
        return False

    def _start(self, web: Web, bundle: Path) -> subprocess.Popen[bytes] | None:
        command = [
            *_python(),
            *("-m", "touchstone.webmon", "--bundle", str(bundle), "--port", str(web.port)),
            *("--events", CHANNELS[self._view], "--view", self._view, "--parent-pipe", "--lang", ",".join(web.langs)),
            *(() if web.timezone is None else ("--timezone", web.timezone)),
        ]
        with self._lock:
            if not self._closing.is_set():
                self._process = _spawn(command, subprocess.PIPE)
            return self._process

    def _attend(self, web: Web, bundle: Path, process: subprocess.Popen[bytes]) -> None:
        """Stays with the process until it ends, whatever ends it, and leaves no zombie."""
        assert process.stdout is not None and process.stderr is not None
        with process.stdout, process.stderr:
            too_late = threading.Timer(START_S, process.kill)
            too_late.daemon = True
            too_late.start()
            port = process.stdout.readline().strip()
            url = f"http://127.0.0.1:{port.decode('ascii', 'replace')}/"
            target = self._page(slugs([bundle.name])[bundle.name])
            if port.isdigit() and self._answers(url, target, START_S, process):
                too_late.cancel()
                self._shown = True
                self._announce(web, url + target)
                self._settled.set()
            last = b""
            for line in process.stderr:
                last = line.strip() or last
        process.wait()
        too_late.cancel()
        why = last.decode("utf-8", "replace")[:300] or f"its process ended with {process.returncode}"
        what = "the live page is gone" if self._shown else "no live page"
        self._say(f"{what}: {why}; the run goes on without it")

    def _announce(self, web: Web, url: str) -> None:
        if self._closing.is_set():
            return
        self._tell(url)
        if web.browser:
            threading.Thread(target=self._browse, args=(url,), daemon=True).start()

    def _browse(self, url: str) -> None:
        """Opens the browser by a process of its own: some print, some wait, some take the terminal."""
        with self._lock:
            if self._closing.is_set():
                return
            try:
                self._opener = _spawn([sys.executable, "-I", "-c", _OPEN, url], subprocess.DEVNULL)
            except OSError:
                self._say("no browser could be opened; the page is there all the same")
                return
        if self._opener.wait() != 0:
            self._say("no browser could be opened; the page is there all the same")


def _python() -> list[str]:
    """The interpreter, told to look for modules where we do: in the working folder only if that is what we do."""
    return [sys.executable, *([] if {"", str(Path.cwd())}.intersection(sys.path) else ["-P"])]


def _spawn(command: list[str], pipe: int) -> subprocess.Popen[bytes]:
    """A child that the terminal's Ctrl-C does not reach. Raises OSError."""
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(subprocess, "CREATE_NO_WINDOW", 0)
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, creationflags=flags, start_new_session=os.name == "posix"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a child: the monitor by its standard input, anything that is still there by force."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    else:
        with suppress(OSError):
            process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _on_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:
        return False
