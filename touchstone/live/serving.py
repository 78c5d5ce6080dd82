"""`serve` and `demo`: build, watch, rebuild, tell; until somebody says stop."""

from __future__ import annotations

import secrets
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from touchstone.build import Builder
from touchstone.errors import MachineError, TouchstoneError
from touchstone.live.elsewhere import Elsewhere, keep_looking
from touchstone.live.hub import Hub
from touchstone.live.presence import announced
from touchstone.live.script import live_script
from touchstone.live.server import Server, folder, listen
from touchstone.live.watch import Changed, Watched, keep_building
from touchstone.options import Options
from touchstone.output import STATE_DIR
from touchstone.render import own_templates
from touchstone.store.write import plain_words


@dataclass(frozen=True)
class Serving:
    """Where and how a site is served."""

    host: str = "127.0.0.1"
    port: int = 8000
    allow: frozenset[str] = frozenset()
    poll: bool = False
    config: Path | None = None
    """The file that the options come from, and"""
    options: Callable[[], Options] | None = None
    """how to read them again when it changes. Raises TouchstoneError."""


class Site:
    """A site that stays up to date: one builder, one hub."""

    def __init__(self, options: Options, how: Serving, note: Callable[[str], None]) -> None:
        self.elsewhere = Elsewhere(options, note)
        self.builder = Builder(options)
        self.hub = Hub(secrets.token_hex(4))
        self._how = how
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
                self._reconfigure(changed)
                self.elsewhere.check()
                # What failed may lie in pages that do not grow.
                whole = changed is None or self.hub.fault is not None
                if not whole and self.builder.grow(changed or (), self.hub.watched, self.hub.publish) is not None:
                    return True
                built = self.builder.update()
            except TouchstoneError as error:
                return self._fail(str(error), again=isinstance(error, MachineError))
            except OSError as error:
                return self._fail(f"{error.filename or self.builder.options.out}: {plain_words(error)}", again=True)
            except Exception:
                # A template of the user's, or a fault of ours: both are theirs to read, neither may end the server.
                return self._fail(traceback.format_exc(limit=-3))
            self._say(built.notes)
            self.hub.publish([*built.written, *built.removed])
            return False

    def get(self, path: str) -> bytes | None:
        """A file of the site; None if there is none."""
        return folder(self.builder.options.out)(path)

    def watched(self) -> Watched:
        """What the site is made from."""
        options = self.builder.options
        sources = (options.runs, options.templates, options.docs, own_templates())
        return Watched(
            tuple(path.resolve() for path in sources if path is not None),
            () if self._how.config is None else (self._how.config.resolve(),),
            (options.out.resolve(), (options.state_home / STATE_DIR).resolve()),
        )

    def _reconfigure(self, changed: Changed | None) -> None:
        unchanged = changed is not None and not changed & set(self.watched().files)
        if self._how.options is None or (unchanged and self.hub.fault is None):
            return
        options = self._how.options()
        if options != self.builder.options:
            if options.remote != self.elsewhere.address:
                self.elsewhere = Elsewhere(options, self._note)
            self.builder = Builder(options)

    def _fail(self, fault: str, *, again: bool = False) -> bool:
        """`again`: nothing that we watch tells when it is mended, as of a full disk; so it is tried again later."""
        self._say([fault])
        self.hub.fail(fault)
        return again

    def _say(self, notes: list[str]) -> None:
        for line in notes:
            if line not in self._said:
                self._note(line)
        self._said = set(notes)


@contextmanager
def serving(options: Options, how: Serving, note: Callable[[str], None]) -> Iterator[tuple[Server, Site]]:
    """A site that is built, watched and served while the context lasts. Raises TouchstoneError."""
    site = Site(options, how, note)
    site.rebuild()
    try:
        server = listen(how.host, how.port, site.get, site.hub, live_script(), how.allow)
    except OSError as error:
        raise MachineError(f"{how.host}:{how.port}: cannot listen here: {error.strerror or error}") from error
    if how.port and server.server_port != how.port:
        note(f"port {how.port} is in use; serving on {server.server_port} instead")
    server.lang = options.langs[0]
    stop = threading.Event()
    watcher = threading.Thread(
        target=keep_building,
        args=(site.watched, site.rebuild, stop),
        kwargs={"poll": how.poll, "note": note},
        daemon=True,
    )
    looker = threading.Thread(target=keep_looking, args=(lambda: site.elsewhere, site.rebuild, stop), daemon=True)
    with announced(options.state_home, server.url, options.runs) as token:
        server.token = token
        server.start()
        watcher.start()
        looker.start()
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
