"""`serve` and `demo`: build, watch, rebuild, tell; until somebody says stop."""

from __future__ import annotations

import secrets
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from touchstone.build import Builder, Options
from touchstone.errors import MachineError, TouchstoneError
from touchstone.live.hub import Hub
from touchstone.live.presence import announced
from touchstone.live.script import live_script
from touchstone.live.server import Server, folder, listen
from touchstone.live.watch import Changed, keep_building


@dataclass(frozen=True)
class Serving:
    """Where and how a site is served."""

    host: str = "127.0.0.1"
    port: int = 8000
    allow: frozenset[str] = frozenset()
    poll: bool = False


class Site:
    """A site that stays up to date: one builder, one hub."""

    def __init__(self, options: Options, note: Callable[[str], None]) -> None:
        self.builder = Builder(options)
        self.hub = Hub(secrets.token_hex(4))
        self._note = note
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def rebuild(self, changed: Changed | None = None) -> bool:
        """Build, then tell the open pages. A fault is said, and stands in for every page until it is mended.

        `changed`: what changed on disk, where that is known. True: only what shows the newest lines was renewed, the
        rest is due later.
        """
        with self._lock:
            try:
                # What failed may lie in pages that do not grow.
                whole = changed is None or self.hub.fault is not None
                grown = None if whole else self.builder.grow(changed or ())
                built = self.builder.update() if grown is None else grown
            except TouchstoneError as error:
                return self._fail(str(error))
            except Exception:
                # A template of the user's, or a fault of ours: both are theirs to read, neither may end the server.
                return self._fail(traceback.format_exc(limit=-3))
            if grown is None:
                self._say(built.notes)
            self.hub.publish([*built.written, *built.removed])
            return grown is not None

    def _fail(self, fault: str) -> bool:
        self._say([fault])
        self.hub.fail(fault)
        return False

    def _say(self, notes: list[str]) -> None:
        for line in notes:
            if line not in self._said:
                self._note(line)
        self._said = set(notes)


@contextmanager
def serving(options: Options, how: Serving, note: Callable[[str], None]) -> Iterator[tuple[Server, Site]]:
    """A site that is built, watched and served while the context lasts. Raises TouchstoneError."""
    site = Site(options, note)
    site.rebuild()
    try:
        server = listen(how.host, how.port, folder(options.out), site.hub, live_script(), how.allow)
    except OSError as error:
        raise MachineError(f"{how.host}:{how.port}: cannot listen here: {error.strerror or error}") from error
    if how.port and server.server_port != how.port:
        note(f"port {how.port} is in use; serving on {server.server_port} instead")
    server.lang = options.langs[0]
    stop = threading.Event()
    folders = [path.resolve() for path in (options.runs, options.templates) if path is not None]
    watcher = threading.Thread(
        target=keep_building, args=(folders, site.rebuild, stop), kwargs={"poll": how.poll}, daemon=True
    )
    with announced(options.state_home, server.url, options.runs) as token:
        server.token = token
        server.start()
        watcher.start()
        try:
            yield server, site
        finally:
            stop.set()
            server.stop()
            watcher.join(timeout=2)


def wait_for_ever() -> None:
    """Until Ctrl-C or SIGTERM."""
    # In short waits: without a timeout Windows would not let Ctrl-C through.
    event = threading.Event()
    while not event.wait(1.0):
        pass
