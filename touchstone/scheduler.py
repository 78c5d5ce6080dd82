"""Runs shared out over the workers of a Dask cluster. A worker that dies costs nothing: others make its runs, or we do.

A worker that sees the same files where they lie here reads them there; others get them along with the task. Pages come
back as bytes and only this process writes them, so no worker needs to see the output folder. This is the only module
that knows distributed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Final

from touchstone import __version__
from touchstone.bundle import BundleState
from touchstone.errors import MachineError, TouchstoneError, brief
from touchstone.i18n import catalogs
from touchstone.making import Done, Job, Made, Settings, Tally, make_run, read_and_make, write_all
from touchstone.output import Folder, Kept
from touchstone.render import Renderer, own_templates
from touchstone.store.bundles import ARTIFACTS, signature

SCHEMES: Final = ("tcp", "tls", "ws", "wss")
CONNECT_S: Final = 5.0
ALONE_S: Final = 20.0
"""How long a cluster may be without any worker: one that was killed is usually started again."""
LOOK_S: Final = 1.0
MOST: Final = 64_000_000
"""Bytes of logs that are sent along with a task; larger runs are made where their files are."""
ON_THE_WAY: Final = 256_000_000
"""Bytes of logs that are on the way at once."""
AHEAD: Final = 2
"""Tasks for each thread of the workers, so that none waits for the next one."""
LIBRARIES: Final = ("babel", "jinja2", "markupsafe", "pydantic", "pyromark")
"""Those that have a say in the bytes of a page."""


def identity() -> dict[str, str]:
    """What has to be the same for the bytes of pages to be."""
    python = ".".join(map(str, sys.version_info[:2]))
    versions = {name: version(name) for name in LIBRARIES}
    return {"touchstone": __version__, "Python": python, **versions, "touchstone's code": _code()}


@cache
def _code() -> str:
    """Of the content of our code, templates and catalogs, wherever they lie."""
    digest = hashlib.sha256()
    for folder, pattern in ((Path(__file__).parent, "*.py"), (own_templates(), "*"), (catalogs(), "*.po")):
        for path in sorted(folder.rglob(pattern), key=lambda path: path.relative_to(folder).as_posix()):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# -- there


@dataclass(frozen=True)
class Errand:
    """A run to be made somewhere else."""

    job: Job
    settings: Settings
    """As here; its folders mean nothing there."""
    templates: dict[str, bytes] | None
    """The user's own, path to content."""
    fingerprint: str
    """Of the renderer here: it has to stand for the templates of both."""
    stamp: str
    """Of the run's files here."""
    files: dict[str, bytes] | None
    """Compressed; None: they are to be read where they lie."""
    sender: dict[str, str]


@dataclass(frozen=True)
class Parcel:
    """What came of it."""

    done: Done
    """Its files are those that are to lie in the output folder, with sizes and times that mean nothing."""
    pages: dict[str, bytes]
    """Compressed; without those that stayed as they were."""


class Unseen(Exception):
    """The worker does not see the files that we see."""


class _Pages(Folder):
    """Takes pages instead of writing them."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}

    def announce(self, paths: Iterable[str]) -> None:
        """Nothing is written here."""

    def write(self, path: str, data: bytes) -> bool:
        self.pages[path] = zlib.compress(data, 1)
        return True

    def kept(self, path: str, inputs: str | None) -> Kept | None:
        return Kept(0, 0, inputs)


_ONE = threading.Lock()
"""Pages are made by Python alone: threads would only get into each other's way."""
_renderers: dict[str, tuple[TemporaryDirectory[str] | None, Renderer]] = {}


def run_errand(errand: Errand) -> Parcel:
    """On the worker. Raises Unseen, TouchstoneError or OSError."""
    if errand.sender != identity():
        raise TouchstoneError("another version of touchstone")
    with _ONE, TemporaryDirectory(prefix="touchstone-") as scratch:
        found = errand.job.found
        if errand.files is None:
            try:
                seen = signature(found)[0] == errand.stamp
            except OSError:
                seen = False
            if not seen:
                raise Unseen
        else:
            for name in ARTIFACTS & errand.files.keys():
                (Path(scratch) / name).write_bytes(zlib.decompress(errand.files[name]))
            found = replace(found, path=Path(scratch))
        state, pages = BundleState(found), _Pages()
        done = make_run(errand.job, state.refresh(), errand.settings, pages, _renderer(errand))
        return Parcel(replace(done, settled=state.settled), pages.pages)


def _renderer(errand: Errand) -> Renderer:
    known = _renderers.get(errand.fingerprint)
    if known is None:
        folder = None
        if errand.templates is not None:
            folder = TemporaryDirectory(prefix="touchstone-templates-")
            for name, data in errand.templates.items():
                path = Path(folder.name) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        renderer = Renderer(None if folder is None else Path(folder.name), noindex=errand.settings.noindex)
        # Not of where the templates lie here, but of where they lie there.
        renderer.__dict__["fingerprint"] = errand.fingerprint
        _renderers.clear()
        known = _renderers[errand.fingerprint] = folder, renderer
    return known[1]


# -- here


def spread(
    address: str,
    jobs: list[Job],
    settings: Settings,
    folder: Folder,
    fingerprint: str,
    unreadable: Callable[[Job, OSError], None],
    note: Callable[[str], None],
) -> Iterator[tuple[Job, Done]]:
    """Each job with what became of it, in any order; `unreadable` hears of runs that cannot be read.

    Raises TouchstoneError, before anything is made, if there is no such cluster or its workers are not like us.
    """
    left: list[Job] = []
    with _cluster(address) as client:
        spreading = _Spreading(address, client, deque(jobs), settings, fingerprint)
        for job, parcel in spreading.results():
            if parcel is None:
                left.append(job)
            else:
                yield job, _put_away(job, parcel, folder)
    if spreading.why is not None:
        note(f"{address}: {spreading.why}; {len(left)} of {len(jobs)} runs were made here")
    for job in left:
        try:
            yield job, read_and_make(job, settings)
        except OSError as error:
            unreadable(job, error)


def _put_away(job: Job, parcel: Parcel, folder: Folder) -> Done:
    """Write the pages that came back, as if they had been made here. Raises TouchstoneError."""
    done, tally = parcel.done, Tally()
    folder.announce(path for path in done.kept if path not in job.before)
    planned = (
        Made(path, partial(zlib.decompress, parcel.pages.get(path, b"")), each.inputs)
        for path, each in done.kept.items()
    )
    kept = write_all(planned, folder, job.before, tally)
    done = replace(done, kept=kept, tally=tally)
    return done if done.settled else done.unsettled()


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """A connection to a scheduler whose workers are like us. Raises MachineError."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MachineError(
            f"--scheduler takes more packages: pip install 'touchstone-judge[dask]' ({error})"
        ) from error
    if address.partition("://")[0] not in SCHEMES:  # what it cannot read, it complains about once more at its end
        raise MachineError(f"{address}: is no address of a Dask scheduler, write one like tcp://127.0.0.1:8786")
    # What it says of connections that come and go would stand between our lines.
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        # Each has a level of its own, set while it was imported.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    client: Any = None
    with warnings.catch_warnings():
        # Other versions over there, large tasks: that is seen to here.
        warnings.simplefilter("ignore")
        try:
            try:
                start: Any = Client
                client = start(address, timeout=CONNECT_S, set_as_default=False, name="touchstone")
                client.wait_for_workers(1, timeout=CONNECT_S)
                _compare(address, client)
            except MachineError:
                raise
            except Exception as error:
                raise MachineError(f"{address}: {_unreachable(address, client, error)}") from error
            yield client
        finally:
            if client is not None:
                with suppress(Exception):
                    client.close(timeout=2)


def _unreachable(address: str, client: Any, error: Exception) -> str:
    if client is not None and not isinstance(error, TimeoutError):
        return brief(error, 200)
    if client is not None:
        return f"the scheduler has no worker; start one with `dask worker {address}`"
    if isinstance(error, OSError):
        return "no Dask scheduler answers there; check the address, or start one with `dask scheduler`"
    return f"is no address of a Dask scheduler, write one like tcp://127.0.0.1:8786 ({brief(error, 100)})"


def _compare(address: str, client: Any) -> None:
    """Raises MachineError if a worker would make other bytes."""

    # By value, for the worker may not have us.
    def ask() -> dict[str, str] | None:
        try:
            from touchstone.scheduler import identity
        except ImportError:
            return None
        return identity()

    ours = identity()
    for worker, theirs in client.run(ask, on_error="return").items():
        if not isinstance(theirs, dict):
            raise MachineError(
                f"{address}: its worker {worker} has no touchstone like this one; "
                f"pip install 'touchstone-judge[dask]=={__version__}' there"
            )
        for name, wanted in ours.items():
            if theirs.get(name) != wanted:
                raise MachineError(
                    f"{address}: its worker {worker} has {name} {theirs.get(name)}, here it is {wanted}; "
                    "install the same there, or the site would not be the same"
                )


class _Spreading:
    """Sends jobs, a few ahead of what the workers can do, and takes what comes back."""

    def __init__(self, address: str, client: Any, waiting: deque[Job], settings: Settings, fingerprint: str) -> None:
        self.client = client
        self.why: str | None = None
        """Why not everything was made there."""
        self._waiting = waiting
        self._settings = replace(settings, templates=None)
        self._templates = None if settings.templates is None else _content(settings.templates)
        self._fingerprint = fingerprint
        self._sender = identity()
        self._send = False
        """The workers do not see our files."""
        self._running: dict[str, tuple[Any, Job, int]] = {}
        self._back: SimpleQueue[Any] = SimpleQueue()
        self._alone_since: float | None = None

    def results(self) -> Iterator[tuple[Job, Parcel | None]]:
        """Each job and what came of it; None for those that are to be made here."""
        threads = self._threads()
        while self._waiting or self._running:
            while self._waiting and self._has_room(threads):
                job = self._waiting.popleft()
                if not self._sent(job):
                    yield job, None
            try:
                future = self._back.get(timeout=LOOK_S) if self._running else None
            except Empty:
                threads = self._threads()
                if self._given_up(threads):
                    break
                continue
            if future is None or future.key not in self._running:
                continue
            _, job, _ = self._running.pop(future.key)
            try:
                yield job, future.result(timeout=CONNECT_S)
            except Unseen:
                self._send = True
                self._waiting.append(job)
            except Exception as error:
                # A killed worker, a lost scheduler, no memory there, a faulty template: here it is made, or told.
                self.why = f"{type(error).__name__}: {brief(error, 100)}"
                yield job, None
            finally:
                future.release()
        left = [*(job for _, job, _ in self._running.values()), *self._waiting]
        with suppress(Exception):
            self.client.cancel([future for future, _, _ in self._running.values()])
        for job in left:
            yield job, None

    def _threads(self) -> int:
        """Of all workers together; 0 if there are none, or the scheduler does not answer."""
        try:
            return sum(self.client.sync(self.client.scheduler.ncores, callback_timeout=CONNECT_S).values())
        except Exception:
            return 0

    def _given_up(self, threads: int) -> bool:
        if threads:
            self._alone_since = None
            return False
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        lost = self.client.status == "closed"
        if not lost and now < self._alone_since + ALONE_S:
            return False
        self.why = "the scheduler went away" if lost else "its workers went away"
        return True

    def _has_room(self, threads: int) -> bool:
        on_the_way = sum(size for _, _, size in self._running.values())
        return not self._running or (len(self._running) < max(1, threads) * AHEAD and on_the_way < ON_THE_WAY)

    def _sent(self, job: Job) -> bool:
        """False for a run that cannot be sent."""
        try:
            stamp, size = signature(job.found)
            files = None
            if self._send:
                files = _content(job.found.path, ARTIFACTS.difference(job.found.links)) if size <= MOST else None
                if files is None:
                    self.why = self.why or f"runs above {MOST / 1e6:.0f} MB are sent to nobody"
                    return False
                files = {name: zlib.compress(data, 1) for name, data in files.items()}
        except OSError:
            return False
        # Relative to our working folder it would mean nothing there.
        there = replace(job, found=replace(job.found, path=job.found.path.absolute()))
        errand = Errand(there, self._settings, self._templates, self._fingerprint, stamp, files, self._sender)
        future = self.client.submit(run_errand, errand, pure=False)
        self._running[future.key] = future, job, 0 if files is None else size
        future.add_done_callback(self._back.put)
        return True


def _content(folder: Path, names: Iterable[str] | None = None) -> dict[str, bytes] | None:
    """Name to content of the ordinary files below a folder, or of those `names` that are there.

    None if one of them is no ordinary file. Raises OSError.
    """
    found = {}
    if names is None:
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    for name in names:
        path = folder / name
        if path.is_file():
            found[name] = path.read_bytes()
        elif os.path.lexists(path):
            return None
    return found
