"""The site on disk: reads the runs, plans, renders, writes what changed and removes what has no source any more.

Only files that an earlier build wrote are ever removed; the state that lists them lies in `.touchstone/`, keyed by the
output folder. An output folder with files that are not ours is refused, not emptied.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, assert_never

import psutil

from touchstone import pages
from touchstone.bundle import LOGS, BundleState
from touchstone.docs import Docs
from touchstone.docs_files import DocsFolder
from touchstone.errors import MachineError, TouchstoneError
from touchstone.i18n import Words
from touchstone.render import Renderer
from touchstone.site import File, Page, Site
from touchstone.store.bundles import find_bundles
from touchstone.store.write import machine_error, replace_file, retry_locked
from touchstone.view import BundleView

GENERATOR: Final = b'<meta name="generator" content="touchstone'
"""Stands in every page we write; its presence in index.html says that the folder is ours."""
STATE_DIR: Final = ".touchstone"
_HALF_WRITTEN: Final = re.compile(r"\..+\.([0-9]{1,9})\.tmp")
"""What `replace_file` writes before it renames."""


@dataclass(frozen=True)
class Options:
    """What `touchstone build` was asked for."""

    runs: Path
    out: Path
    langs: tuple[str, ...] = ("en",)
    base_url: str | None = None
    timezone: str | None = None
    templates: Path | None = None
    docs: Path | None = None
    """Folder of Markdown files that become pages."""
    force: bool = False
    state_home: Path = field(default_factory=Path.cwd)
    """The folder whose `.touchstone/` holds the state between builds."""


@dataclass(slots=True)
class Built:
    """What a build did."""

    written: list[str] = field(default_factory=list)
    unchanged: int = 0
    removed: list[str] = field(default_factory=list)
    bytes: int = 0
    """Of all pages and files of the site."""
    runs: int = 0
    notes: list[str] = field(default_factory=list)
    """What a person should know: unreadable bundles, broken lines; one line each."""


def view_notes(view: BundleView) -> Iterator[str]:
    """What is odd about a bundle, a line each."""
    for name, problems in view.problems.items():
        line, reason = problems.first[0]
        more = f" (and {problems.count - 1} more)" if problems.count > 1 else ""
        yield f"{view.name}/{name}:{line}: {reason}{more}"
    yield from (f"{view.name}: {note}" for note in view.notes)


@dataclass(frozen=True, slots=True)
class Made:
    """One path of the site and the way to its bytes."""

    path: str
    content: Callable[[], bytes]
    inputs: str | None = None
    """While it stays, so do the bytes; None: they have to be made to know."""


def outputs(items: Iterable[Page | File], site: Site, renderer: Renderer, timezone: str | None) -> Iterator[Made]:
    """Every path that these pages and files have, in every language."""
    words = [Words(lang, timezone) for lang in site.langs]
    for item in items:
        match item:
            case File():
                yield Made(item.path, item.content)
            case Page():
                for each in words[:1] if item.once else words:
                    path = site.lang_root(each.lang) + item.path
                    inputs = None if item.inputs is None else f"{item.inputs}-{renderer.fingerprint}"
                    yield Made(path, _rendered(renderer, item, site, each), inputs)
            case _:
                assert_never(item)


def all_outputs(site: Site, renderer: Renderer, timezone: str | None) -> Iterator[Made]:
    """Every path of the site."""
    yield from outputs(pages.plan(site), site, renderer, timezone)
    for path, data in renderer.assets().items():
        yield Made(path, partial(bytes, data))


def _rendered(renderer: Renderer, page: Page, site: Site, words: Words) -> Callable[[], bytes]:
    return lambda: renderer.render(page, site, words).encode("utf-8")


class Output:
    """The output folder, and the list of what we wrote there."""

    def __init__(self, options: Options) -> None:
        self.root = options.out
        key = hashlib.sha256(str(options.out.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._state = options.state_home / STATE_DIR / f"build-{key}.json"
        self.known = self._load()
        """Paths that we wrote here; None if nobody remembers."""
        self._check(options)

    def _load(self) -> set[str] | None:
        try:
            data = json.loads(self._state.read_text(encoding="utf-8"))
            if data["out"] != str(self.root.resolve()):
                return None
            return {str(path) for path in data["files"] if _inside(str(path))}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def _check(self, options: Options) -> None:
        runs, out = options.runs.resolve(), self.root.resolve()
        if runs == out or runs in out.parents or out in runs.parents:
            raise TouchstoneError(f"{options.out}: runs and output must not contain each other; choose another --out")
        if out.exists() and not out.is_dir():
            raise TouchstoneError(f"{options.out}: is a file, not a folder; choose another --out")
        if self.known is None and out.is_dir() and not options.force and not self._ours(out):
            raise TouchstoneError(
                f"{options.out}: holds files that touchstone did not make; "
                "choose an empty folder, or add --force to build into this one (your files stay)"
            )

    @staticmethod
    def _ours(out: Path) -> bool:
        names = [path.name for path in out.iterdir()]
        if all(name.startswith(".") or name.upper().startswith("README") for name in names):
            return True
        with suppress(OSError):
            return GENERATOR in (out / "index.html").read_bytes()[:4096]
        return False

    def write(self, path: str, data: bytes) -> bool:
        """Write `data` if the file holds anything else; True if it was written."""
        target = self.root / path
        try:
            if not target.is_symlink() and target.is_file() and target.read_bytes() == data:
                return False
            if not target.parent.resolve().is_relative_to(self.root.resolve()):
                raise MachineError(f"{target}: a link in the output folder leads out of it; remove the link")
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, data)
        except OSError as error:
            raise machine_error(target, error) from error
        return True

    def remove(self, path: str) -> None:
        """Remove a file that we wrote, and folders that it leaves empty; nothing behind a link that leads elsewhere."""
        target = self.root / path
        if not target.parent.resolve().is_relative_to(self.root.resolve()):
            return
        if target.is_dir() and not target.is_symlink():
            return
        try:
            retry_locked(target.unlink)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise machine_error(target, error) from error
        for folder in target.parents:
            if folder == self.root:
                break
            try:
                folder.rmdir()
            except OSError:
                break

    def claim(self, paths: Iterable[str]) -> None:
        """Remember what is about to be written, so that a build that dies half-way leaves no orphans."""
        wanted = set(paths)
        if self.known is None or not wanted <= self.known:
            self.known = wanted | (self.known or set())
            self._save()

    def claim_more(self, paths: Iterable[str]) -> None:
        """Remember a few more paths."""
        if self.known is None or not self.known.issuperset(paths := list(paths)):
            self.known = {*paths, *(self.known or ())}
            self._save()

    def keep_only(self, paths: Iterable[str]) -> list[str]:
        """Remove what we wrote earlier and is no longer part of the site. Returns what was removed."""
        wanted = set(paths)
        gone = sorted((self.known or set()) - wanted)
        for path in gone:
            self.remove(path)
        if gone or self.known is None:
            self.known = wanted
            self._save()
        return gone

    def sweep(self) -> None:
        """Remove the half-written files of builds that were killed."""
        for folder in {(self.root / path).parent for path in self.known or ()}:
            with suppress(OSError):
                for entry in list(os.scandir(folder)):
                    found = _HALF_WRITTEN.fullmatch(entry.name)
                    if found is not None and not psutil.pid_exists(int(found[1])):
                        self.remove((folder / entry.name).relative_to(self.root).as_posix())

    def _save(self) -> None:
        text = json.dumps({"out": str(self.root.resolve()), "files": sorted(self.known or ())}, indent=0)
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._state, text.encode("utf-8"))
        except OSError as error:
            raise machine_error(self._state, error) from error


def _inside(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/") and "\\" not in path


@dataclass(frozen=True, slots=True)
class Reach:
    """What the pages of a bundle took for granted of it; where it changes, pages come that nobody planned for."""

    judged: bool
    answered: bool
    documents: str

    @classmethod
    def of(cls, view: BundleView) -> Reach:
        return cls(view.judge.done > 0, view.keys.slots > 0, view.documents)


class Builder:
    """Builds the site, again and again: what it read stays read, and only what changed is written.

    `update` brings everything up to date. `grow` is its shortcut for a run that goes on: it costs the same however
    long the run already is, and leaves what is site-wide to the next `update`.
    """

    def __init__(self, options: Options) -> None:
        """Raises TouchstoneError if the folders cannot be used."""
        self.options = options
        self._check_runs()
        self.output = Output(options)
        self._states: dict[Path, BundleState] = {}
        self._kept: dict[str, tuple[str, int]] = {}
        """Path to the inputs that its page was made from, and its size."""
        self._site: Site | None = None
        self._renderer: Renderer | None = None
        self._reach: dict[Path, Reach] = {}
        self._docs = None if options.docs is None else DocsFolder(options.docs, options.langs)
        self._folders: dict[Path, Path] = {}
        """Resolved folder of a bundle to the one that we call it by."""

    def _check_runs(self) -> None:
        runs = self.options.runs
        if not runs.is_dir():
            raise TouchstoneError(f"{runs}: no such folder; run `touchstone eval` first, or name it with --runs")

    def update(self) -> Built:
        """Bring the output up to date. Raises TouchstoneError; broken lines and bundles are notes, not errors."""
        self._check_runs()
        views, notes = self._views()
        for view in views:
            notes.extend(view_notes(view))
        built = Built(runs=len(views), notes=notes)
        docs, said = (Docs(), []) if self._docs is None else self._docs.read()
        notes.extend(said)
        site = Site(tuple(views), self.options.langs, self.options.base_url, docs)
        renderer = self._renderer = self._fresh_renderer()
        planned = list(all_outputs(site, renderer, self.options.timezone))
        self.output.claim(made.path for made in planned)
        if not self._kept:
            self.output.sweep()
        before, self._kept = self._kept, {}
        self._make(planned, before, built)
        built.removed = self.output.keep_only([made.path for made in planned])
        self._site = site
        return built

    def grow(self, changed: Iterable[Path]) -> Built | None:
        """Bring up to date what shows the newest lines of these logs (absolute paths).

        None: more than that changed, and `update` is due. Raises TouchstoneError.
        """
        bundles = self._growing(changed)
        if bundles is None or self._site is None or self._renderer is None:
            return None
        built = Built(runs=len(self._site.bundles))
        for path in bundles:
            state, reach = self._states.get(path), self._reach.get(path)
            if state is None or reach is None:
                return None
            try:
                view = state.refresh()
            except OSError:
                return None
            if view.touched is None or Reach.of(view) != reach:
                # What was read is not lost, but no page knows of it yet.
                self._site = None
                return None
            self._site = self._site.grown(view)
            grown = list(outputs(pages.grown(self._site, view), self._site, self._renderer, self.options.timezone))
            self.output.claim_more(made.path for made in grown)
            self._make(grown, self._kept, built)
        return built

    def _growing(self, changed: Iterable[Path]) -> list[Path] | None:
        """The bundles whose logs changed; None if anything else did."""
        bundles: dict[Path, None] = {}
        for path in changed:
            bundle = self._folders.get(path.parent)
            if bundle is not None and path.name in LOGS:
                bundles[bundle] = None
            elif not path.name.startswith("."):
                return None
        return list(bundles)

    def _fresh_renderer(self) -> Renderer:
        """The one we have, with its compiled templates, unless one of them changed."""
        fresh = Renderer(self.options.templates)
        old = self._renderer
        return old if old is not None and old.fingerprint == fresh.fingerprint else fresh

    def _make(self, planned: Iterable[Made], before: dict[str, tuple[str, int]], built: Built) -> None:
        """Render and write what is not made from the same inputs as before."""
        for made in planned:
            known = before.get(made.path)
            if known is not None and known[0] == made.inputs:
                size, changed = known[1], False
            else:
                data = made.content()
                size, changed = len(data), self.output.write(made.path, data)
            if made.inputs is not None:
                self._kept[made.path] = (made.inputs, size)
            built.bytes += size
            built.unchanged += not changed
            if changed:
                built.written.append(made.path)

    def _views(self) -> tuple[list[BundleView], list[str]]:
        """All bundles, newest first, and notes about those that could not be read."""
        views, notes, states = [], [], {}
        for found in find_bundles(self.options.runs):
            known = self._states.get(found.path)
            state = known if known is not None and known.found == found else BundleState(found)
            try:
                view = state.refresh()
            except OSError as error:
                notes.append(f"{found.path}: not shown: {error.strerror or error}")
                continue
            views.append(view)
            states[found.path] = state
            self._reach[found.path] = Reach.of(view)
        self._states = states
        self._folders = {path.resolve(): path for path in states}
        views.sort(key=_age, reverse=True)
        return views, notes


def _age(view: BundleView) -> tuple[float, str]:
    """When a run was made, from its data; what has no date counts as old."""
    created = view.manifest.created if view.manifest is not None else None
    with suppress(ValueError, OverflowError, OSError):
        if created is not None:
            return (created.timestamp(), view.name)
    return (view.judge.last_ts or view.eval.last_ts or 0.0, view.name)


def build(options: Options) -> Built:
    """Build the site once. Raises TouchstoneError."""
    return Builder(options).update()
