"""The monitor of a running eval or judge: a process of its own that only reads, and shows the bundle's pages growing.

    python -m touchstone.webmon --bundle DIR --port P --events FILE [--view eval|judge] [--parent-pipe]

It prints the port on which it listens and nothing else. The pages are the builder's, rendered in memory when they are
asked for; nothing is written. It yields to the run: lowest priority, and it rests longer the longer a renewal took.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from html import unescape
from pathlib import Path
from posixpath import join, normpath
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfoNotFoundError

import psutil

from touchstone import events, judge_events, pages
from touchstone.build import Reach
from touchstone.bundle import open_bundle
from touchstone.i18n import LANGUAGES, Words
from touchstone.live.hub import Hub
from touchstone.live.script import live_script
from touchstone.live.server import listen
from touchstone.making import Made, all_outputs, outputs
from touchstone.render import Renderer
from touchstone.site import Site
from touchstone.slugs import slugs
from touchstone.store.bundles import DOCUMENTS, LOGS

RESOURCES: Final = "resources.jsonl"
POLL_S: Final = 0.05
PAUSE_S: Final = 0.2
"""The least time between two renewals."""
SHARE: Final = 9
"""We rest this many times as long as a renewal took: at most a tenth of one core is ours."""
REST_S: Final = 5.0
"""A run that was silent for so long has rested: pages that do not show the newest lines follow."""
FAREWELL_S: Final = 0.5
"""How long open pages have to fetch the end of the run."""
KEPT_PAGES: Final = 32


class View(Protocol):
    """What this process asks of a view's module; its `build_view` says what the channel adds up to."""

    @property
    def CHANNEL(self) -> str:
        """The log that the run appends to while it goes on."""

    @property
    def TAILS_RESOURCES(self) -> bool:
        """Whether its pages show the machine's load."""


VIEWS: Final[dict[str, View]] = {"eval": events, "judge": judge_events}


class Pages:
    """One bundle's pages, made when they are asked for; `hub` hears which of them changed. Thread-safe."""

    def __init__(
        self, bundle: Path, view: str, hub: Hub, langs: Sequence[str] = ("en",), timezone: str | None = None
    ) -> None:
        omit = () if VIEWS[view].TAILS_RESOURCES else (RESOURCES,)
        self._state = open_bundle(bundle, omit)
        self._files = tuple(bundle / name for name in (*LOGS, *DOCUMENTS) if name not in omit)
        self._hub = hub
        self._langs = tuple(langs)
        self._timezone = timezone
        self._renderer = Renderer()
        self._lock = threading.Lock()
        self._stamps: list[tuple[int, ...] | None] = []
        self._site: Site | None = None
        self._reach: Reach | None = None
        self._planned: dict[str, Made] = {}
        self._fresh: frozenset[str] = frozenset()
        """Paths planned for the newest lines; the others are as old as the last whole plan."""
        self._whole = False
        """Everything planned is about the newest lines."""
        self._asked: set[str] = set()
        self._kept: dict[str, tuple[str | None, bytes]] = {}
        self.spent_s = 0.0
        """What all of this took until now."""
        name = self._state.found.name
        home = f"runs/{slugs([name])[name]}/"
        self.monitor = f"{home}{view}/index.html"
        roots = [Site((), self._langs).lang_root(lang) for lang in langs]
        self._ours = tuple(root + home for root in roots)
        # Without the machine's load the eval monitor would be another page than the site's.
        self._not_ours = tuple(f"{each}eval/" for each in self._ours) if omit else ()

    def serves(self, path: str) -> bool:
        """Whether a path is one of the bundle's own; whether there is such a page is another question."""
        ours = path.startswith(self._ours) and not path.startswith(self._not_ours)
        return ours or path.startswith("assets/") or path == "404.html"

    # -- what there is

    @property
    def stale(self) -> bool:
        """Whether something was written since we last read."""
        return self._stat() != self._stamps

    @property
    def whole(self) -> bool:
        """Whether also those pages are up to date that do not show the newest lines."""
        return self._whole

    def _stat(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._files]

    def renew(self, *, whole: bool = False) -> None:
        """Read what is new and tell the hub which of the pages that somebody saw are others now."""
        with self._lock, self._timed():
            self._renew(whole)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.spent_s += time.monotonic() - began

    def _renew(self, whole: bool) -> None:
        # Taken before reading: what is written meanwhile counts as new.
        self._stamps = self._stat()
        before = {path: self._inputs(path) for path in self._asked}
        view = self._state.refresh()
        grows = self._site is not None and view.touched is not None and Reach.of(view) == self._reach
        if self._site is not None and grows and not whole:
            self._site = self._site.grown(view)
            grown = {
                made.path: made
                for made in outputs(pages.grown(self._site, view), self._site, self._renderer, self._timezone)
                if self.serves(made.path)
            }
            self._planned.update(grown)
            self._fresh = frozenset(grown)
            self._whole = False
        else:
            self._site, self._reach = Site((view,), self._langs), Reach.of(view)
            every = all_outputs(self._site, self._renderer, self._timezone)
            self._planned = {made.path: made for made in every if self.serves(made.path)}
            self._whole = True
        changed = [path for path, inputs in before.items() if inputs != self._inputs(path)]
        if changed:
            self._hub.publish(changed)

    def _inputs(self, path: str) -> str | None:
        made = self._planned.get(path)
        return None if made is None else made.inputs or ""

    def get(self, path: str) -> bytes | None:
        """The file at `path` as of now; None if there is none."""
        if not self.serves(path):
            return None
        with self._lock, self._timed():
            if self.stale:
                self._renew(whole=False)
            if not self._whole and path not in self._fresh and not path.startswith("assets/"):
                self._renew(whole=True)
            made = self._planned.get(path)
            if made is not None or path == self.monitor:
                self._asked.add(path)
            return None if made is None else self._bytes(made)

    def _bytes(self, made: Made) -> bytes:
        kept = self._kept.pop(made.path, None)
        if kept is None or made.inputs is None or kept[0] != made.inputs:
            data = made.content()
            if made.path.endswith(".html"):
                data = self._without_dead_links(made.path, data.decode("utf-8")).encode("utf-8")
            kept = made.inputs, data
        self._kept[made.path] = kept
        if len(self._kept) > KEPT_PAGES:
            del self._kept[next(iter(self._kept))]
        return kept[1]

    def _without_dead_links(self, page: str, html: str) -> str:
        """Links to what only the whole site has become plain text."""

        def plain(found: re.Match[str]) -> str:
            target = _target(page, unescape(found["href"]))
            if target is None or self.serves(target):
                return found[0]
            return f"<span{_LINK_ONLY.sub('', found['rest'])}>{found['text']}</span>"

        return _LINK.sub(plain, html)


# Our own markup: values are quoted, < and > in them escaped, and links are never nested.
_LINK: Final = re.compile(r'<a(?P<rest>(?:\s[^>]*)?\shref="(?P<href>[^">]*)"[^>]*)>(?P<text>.*?)</a>', re.DOTALL)
_LINK_ONLY: Final = re.compile(r'\s(?:href|hreflang|rel)="[^"]*"')


def _target(page: str, href: str) -> str | None:
    """The path below the root that a link on `page` leads to; None for one that stays or leads out of the site."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc or not parts.path:
        return None
    return normpath(join(page.rpartition("/")[0], unquote(parts.path)))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


# -- the process


def follow(site: Pages, hub: Hub, stop: threading.Event) -> None:
    """Renew the pages while somebody looks at them, until `stop` is set. Who asks for a page gets it renewed anyway."""
    newest, spent_s = time.monotonic(), site.spent_s
    while not stop.wait(POLL_S):
        if not hub.listeners:
            continue
        if site.stale:
            newest = time.monotonic()
            site.renew()
        elif not site.whole and time.monotonic() - newest >= REST_S:
            site.renew(whole=True)
        else:
            continue
        # Also what was rendered for those who were told counts.
        stop.wait(max(PAUSE_S, SHARE * (site.spent_s - spent_s)))
        spent_s = site.spent_s


def say_goodbye(site: Pages, hub: Hub) -> None:
    """Open pages get the end of the run, and a moment to fetch it."""
    if hub.listeners:
        site.renew(whole=True)
        time.sleep(FAREWELL_S)


def wait_for_parent(stop: threading.Event) -> None:
    """Sets `stop` when standard input ends: the parent closed it, or is no more."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    stop.set()


def yield_to_others() -> None:
    """The run comes first."""
    with suppress(OSError, psutil.Error):
        if sys.platform == "win32":
            psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
        else:
            os.nice(15)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m touchstone.webmon", description="Show a bundle's pages growing.")
    parser.add_argument("--bundle", type=Path, required=True, help="the run's folder")
    parser.add_argument("--port", type=int, required=True, help="where to listen; 0 takes a free one")
    parser.add_argument("--events", required=True, help="the event channel in the bundle")
    parser.add_argument("--view", choices=sorted(VIEWS), default="eval", help="which monitor / leads to")
    parser.add_argument("--parent-pipe", action="store_true", help="end when standard input does; ignore Ctrl-C")
    parser.add_argument("--lang", default="en", help="languages of the pages, the first one at the root")
    parser.add_argument("--timezone", help="in which times are shown")
    given = parser.parse_args(words)
    channel = VIEWS[given.view].CHANNEL
    if Path(given.events).name != channel:
        parser.error(f"--events {given.events}: view {given.view} follows {channel}")
    if not given.bundle.is_dir():
        parser.error(f"--bundle {given.bundle}: no such folder")
    if not 0 <= given.port <= 65535:
        parser.error(f"--port {given.port}: must be from 0 to 65535")
    given.lang = given.lang.split(",")
    if not set(given.lang) <= set(LANGUAGES):
        parser.error(f"--lang: choose from {', '.join(LANGUAGES)}")
    try:
        Words("en", given.timezone)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        parser.error(f"--timezone {given.timezone}: no such time zone")
    return given


def main(words: Sequence[str] | None = None) -> int:
    """Serves until the parent ends, Ctrl-C or SIGTERM; 1 if the port cannot be had."""
    given = _arguments(words)
    signal.signal(signal.SIGINT, signal.SIG_IGN if given.parent_pipe else signal.default_int_handler)
    yield_to_others()
    hub = Hub(secrets.token_hex(4))
    site = Pages(given.bundle, given.view, hub, given.lang, given.timezone)
    try:
        server = listen("127.0.0.1", given.port, site.get, hub, live_script(), frozenset(), tries=1)
    except OSError as error:
        print(f"port {given.port}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return 1
    server.home = site.monitor
    stop = threading.Event()
    if given.parent_pipe:
        threading.Thread(target=wait_for_parent, args=(stop,), daemon=True).start()
    server.start()
    with suppress(OSError):
        print(server.server_port, flush=True)
    try:
        follow(site, hub, stop)
        say_goodbye(site, hub)
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
