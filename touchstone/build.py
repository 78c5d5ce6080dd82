"""The site, again and again: finds out which runs changed, has their pages made, then those over all runs.

A run that did not change is not read: what the pages over all runs need of it was kept. Runs know nothing of each
other while their pages are made, so several processes share them.
"""

from __future__ import annotations

import hashlib
import os
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from touchstone import making, pages, summary
from touchstone.bundle import BundleState, pack_in
from touchstone.docs import Docs
from touchstone.docs_files import DocsFolder
from touchstone.errors import TouchstoneError
from touchstone.making import Done, Job, Made, Settings, Tally, code_fingerprint, outputs, write_all
from touchstone.options import Options
from touchstone.output import Kept, Output
from touchstone.publishing import Publish, withhold
from touchstone.render import Renderer
from touchstone.site import Place, Site, age
from touchstone.store.bundles import LOGS, Found, find_bundles, not_shown, signature
from touchstone.summary import Summary
from touchstone.view import BundleView

KEPT_STATES: Final = 8
"""Runs that stay in memory, so that one that grows need not be read again."""
WORTH_SHARING: Final = 4_000_000
"""Bytes of logs from which a further process earns its start."""


Finds = dict[str, tuple[Found, str, int]]
"""Name to bundle, signature and bytes."""


@dataclass(slots=True)
class Built(Tally):
    """What a build did."""

    removed: list[str] = field(default_factory=list)
    runs: int = 0
    notes: list[str] = field(default_factory=list)
    """What a person should know: unreadable bundles, broken lines; one line each."""
    heaviest: tuple[str, int] | None = None
    """The run whose pages weigh most, and how much."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the pages of a bundle took for granted of it; where it changes, pages come that nobody planned for."""

    judged: bool
    answered: bool
    documents: str

    @classmethod
    def of(cls, view: BundleView) -> Reach:
        return cls(view.judge.done > 0, view.keys.slots > 0, view.documents)


@dataclass(slots=True)
class Run:
    """What is known of one run and its pages."""

    signature: str
    place: Place
    notes: list[str]
    summary: str | None
    """As JSON; None: it cannot be kept beyond this process."""
    kept: dict[str, Kept]
    full: int
    """Bytes of all of its pages, also where its result alone is on the site."""
    view: BundleView | None = None
    """As the pages over all runs see it."""

    def as_json(self) -> dict[str, Any]:
        files = {path: [kept.size, kept.changed, kept.inputs] for path, kept in self.kept.items()}
        return {
            "signature": self.signature,
            "place": self.place,
            "notes": self.notes,
            "summary": self.summary,
            "files": files,
            "full": self.full,
        }

    @classmethod
    def from_json(cls, data: Any) -> Run | None:
        """None for what is none of ours."""
        try:
            kept = {
                str(path): Kept(int(size), int(changed), inputs)
                for path, (size, changed, inputs) in data["files"].items()
            }
            run = cls(
                str(data["signature"]),
                Place(*data["place"]),
                [str(note) for note in data["notes"]],
                data["summary"],
                kept,
                int(data["full"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        return run if isinstance(run.summary, str) else None

    def recall(self, path: Path, publish: Publish) -> BundleView | None:
        """The run as the pages over all runs see it; None if that is no longer known."""
        if self.view is None and self.summary is not None:
            known = summary.load(self.summary)
            if known is not None:
                self.view = self.seen(known, path, publish)
        return self.view

    def seen(self, known: Summary, path: Path, publish: Publish) -> BundleView:
        """The view of a summary, with the pack as it is now; without one that cannot be read until the next build."""
        try:
            pack = pack_in(path)
        except OSError:
            pack, self.signature = None, ""
            self.notes = [*self.notes, making.half_read(known.name)]
        return withhold(summary.recall(known, pack), publish)


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
        self._docs = None if options.docs is None else DocsFolder(options.docs, options.langs, options.state_home)
        self._renderer: Renderer | None = None
        self._made_for = ""
        """Stands for all that every page is made with: templates, languages, options, code."""
        self._runs: dict[str, Run] = {}
        self._wide: dict[str, Kept] = {}
        self._wide_for = ""
        """Stands for all that the pages over all runs were made from."""
        self._states: dict[Path, BundleState] = {}
        self._reach: dict[Path, Reach] = {}
        self._folders: dict[Path, Found] = {}
        """Resolved folder of a bundle to the bundle."""
        self._site: Site | None = None

    def _check_runs(self) -> None:
        runs = self.options.runs
        if not runs.is_dir():
            raise TouchstoneError(f"{runs}: no such folder; run `touchstone eval` first, or name it with --runs")

    # -- everything

    def update(self) -> Built:
        """Bring the output up to date. Raises TouchstoneError; broken lines and bundles are notes, not errors."""
        self._check_runs()
        self.output.forget()
        renderer = self._fresh_renderer()
        built = Built()
        docs, said = (Docs(), []) if self._docs is None else self._docs.read()
        built.notes += said
        found = self._find(built)
        self.output.sweep()
        if self._is_current(found, docs):
            return self._unchanged(found, built)
        site = self._around(found, docs, built)
        self.output.begin()
        site = self._make_runs(found, site, renderer, built)
        site = site.recalled(tuple(view for view in map(self._recalled(found), site.bundles) if view is not None))
        self._make_wide(found, site, renderer, built)
        self._tidy(built)
        built.runs = len(site.bundles)
        self._site = site
        return built

    def _fresh_renderer(self) -> Renderer:
        """The one we have, with its compiled templates, unless one of them changed."""
        fresh = Renderer(self.options.templates, noindex=self.options.noindex)
        if self._renderer is None or self._renderer.fingerprint != fresh.fingerprint:
            self._renderer = fresh
        options = self.options
        parts = (
            fresh.fingerprint,
            code_fingerprint(),
            options.langs,
            options.base_url,
            options.timezone,
            options.publish,
        )
        made_for = hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
        if made_for != self._made_for:
            first, self._made_for = not self._made_for, made_for
            self._runs, self._wide, self._wide_for = {}, {}, ""
            if first and self.output.memory.get("made_for") == made_for:
                self._remember(self.output.memory)
        return self._renderer

    def _remember(self, memory: dict[str, Any]) -> None:
        runs = memory.get("runs")
        known = ((str(name), Run.from_json(data)) for name, data in (runs.items() if isinstance(runs, dict) else ()))
        self._runs = {name: run for name, run in known if run is not None}
        wide = Run.from_json(
            {
                "signature": "",
                "place": ["", None, None, False],
                "notes": [],
                "summary": "",
                "full": 0,
                "files": memory.get("wide"),
            }
        )
        self._wide = {} if wide is None else wide.kept
        self._wide_for = str(memory.get("wide_for"))

    def _find(self, built: Built) -> Finds:
        """Name to bundle, signature and size."""
        found: Finds = {}
        for each in find_bundles(self.options.runs, lambda error: built.notes.append(not_shown(error))):
            try:
                found[each.name] = (each, *signature(each))
            except OSError as error:
                built.notes.append(f"{each.path}: not shown: {error.strerror or error}")
        self._folders = {each.path.resolve(): each for each, _, _ in found.values()}
        return found

    def _sources(self, found: Finds, docs: Docs) -> str:
        """Stands for everything that the site is made from."""
        runs = sorted((name, stamp) for name, (_, stamp, _) in found.items())
        texts = [sorted((lang, doc.sha) for lang, doc in page.texts.items()) for page in docs.pages]
        pictures = [(path, hashlib.sha256(picture.data()).hexdigest()) for path, picture in docs.shown_pictures]
        return hashlib.sha256(
            repr((self._made_for, self.options.max_bytes, runs, texts, pictures, docs.shape)).encode()
        ).hexdigest()[:24]

    def _is_current(self, found: Finds, docs: Docs) -> bool:
        """Whether the output is what this would make."""
        if self._wide_for != self._sources(found, docs) or found.keys() != self._runs.keys():
            return False
        if any(run.signature != found[name][1] for name, run in self._runs.items()):
            return False
        files = [self._wide, *(run.kept for run in self._runs.values())]
        known = {path for kept in files for path in kept}
        return known == self.output.known and all(map(self._intact, files))

    def _intact(self, kept: dict[str, Kept]) -> bool:
        return all(self.output.stamp(path) == (each.size, each.changed) for path, each in kept.items())

    def _unchanged(self, found: Finds, built: Built) -> Built:
        built.runs = len(found)
        for run in self._runs.values():
            built.notes += run.notes
        self._account(built)
        return built

    def _account(self, built: Built) -> None:
        """What there is on disk now, and what of it was there before."""
        every = [self._wide, *(run.kept for run in self._runs.values())]
        there = {path for kept in every for path in kept}
        built.written = [path for path in dict.fromkeys(built.written) if path in there]
        built.unchanged = len(there) - len(built.written)
        built.bytes = sum(each.size for kept in every for each in kept.values())
        heaviest = max(
            self._runs.items(), key=lambda item: sum(kept.size for kept in item[1].kept.values()), default=None
        )
        if heaviest is not None:
            built.heaviest = heaviest[0], sum(kept.size for kept in heaviest[1].kept.values())

    # -- the runs

    def _around(self, found: Finds, docs: Docs, built: Built) -> Site:
        """The site as far as it is known before the changed runs are read: which runs there are, of which packs."""
        views = []
        for name, (each, stamp, size) in found.items():
            run = self._runs.get(name)
            known = run.recall(each.path, self.options.publish) if run is not None and run.signature == stamp else None
            if known is None:
                state = BundleState(each)
                known = withhold(state.glance(), self.options.publish)
                if not state.settled:
                    found[name] = each, "", size
                    built.notes.append(making.half_read(each.name))
            views.append(known)
        views.sort(key=age, reverse=True)
        return Site(tuple(views), self.options.langs, self.options.base_url, docs)

    def _make_runs(self, found: Finds, site: Site, renderer: Renderer, built: Built) -> Site:
        """Bring the runs' pages up to date; the site, which then knows whose pages had no room."""
        self._runs = {name: run for name, run in self._runs.items() if name in found}
        changed = [
            view
            for view in site.bundles
            if (run := self._runs.get(view.name)) is None or run.signature != found[view.name][1]
        ]
        self._make_some(changed, found, site, renderer, built)
        site = site.reduced_to(self._without_room(site, built))
        others = [
            view
            for view in site.bundles
            if (run := self._runs.get(view.name)) is not None
            and not (run.place == site.place(view) and self._intact(run.kept))
        ]
        self._make_some(others, found, site, renderer, built)
        for run in self._runs.values():
            built.notes += run.notes
        return site

    def _without_room(self, site: Site, built: Built) -> frozenset[str]:
        """Names of the oldest runs, so many that the pages of the others fit; the newest run always has all of its."""
        room = self.options.max_bytes
        names = [view.name for view in site.bundles if view.name in self._runs]
        for place, name in enumerate(names):
            room -= self._runs[name].full
            if room < 0 and place > 0:
                left = len(names) - place
                built.notes.append(
                    f"{left} of {len(names)} runs are there with their result alone: all pages would weigh more than "
                    f"{self.options.max_bytes / 1e6:g} MB (max_site_mb)"
                )
                return frozenset(names[place:])
        return frozenset()

    def _make_some(self, views: list[BundleView], found: Finds, site: Site, renderer: Renderer, built: Built) -> None:
        jobs = []
        for view in views:
            run = self._runs.get(view.name)
            before = {} if run is None else {p: kept for p, kept in run.kept.items() if self._intact({p: kept})}
            jobs.append(Job(found[view.name][0], site.place(view), before))
        for job, done in self._done(jobs, sum(found[job.found.name][2] for job in jobs), renderer, built):
            name, old = job.found.name, self._runs.get(job.found.name)
            full = done.tally.bytes if not job.place.reduced or old is None else old.full
            stamp = found[name][1] if done.settled else ""
            run = Run(stamp, job.place, done.notes, summary.dump(done.summary), done.kept, full)
            run.view = run.seen(done.summary, job.found.path, self.options.publish)
            self._runs[name] = run
            built.written += done.tally.written
            self.output.know(done.kept)

    def _done(self, jobs: list[Job], size: int, renderer: Renderer, built: Built) -> Iterator[tuple[Job, Done]]:
        """The jobs, done: here, or by several processes where that is faster."""
        options = self.options
        settings = Settings(
            options.out,
            self.output.claims,
            options.langs,
            options.base_url,
            options.timezone,
            options.templates,
            options.publish,
            options.noindex,
        )
        if options.scheduler is not None and jobs:
            from touchstone.scheduler import spread

            unreadable, told = partial(self._unreadable, built), built.notes.append
            yield from spread(options.scheduler, jobs, settings, self.output, renderer.fingerprint, unreadable, told)
            return
        workers = min(os.cpu_count() or 1, len(jobs), 1 + size // WORTH_SHARING)
        if workers > 1:
            from touchstone.sharing import shared

            yield from shared(jobs, settings, workers, partial(self._unreadable, built))
            return
        for job in jobs:
            try:
                view = self._state(job.found).refresh()
            except OSError as error:
                self._unreadable(built, job, error)
                continue
            self._reach[job.found.path] = Reach.of(view)
            done = making.make_run(job, view, settings, self.output, renderer)
            yield job, done if self._state(job.found).settled else done.unsettled()

    def _unreadable(self, built: Built, job: Job, error: OSError) -> None:
        built.notes.append(f"{job.found.path}: not shown: {error.strerror or error}")
        self._runs.pop(job.found.name, None)

    def _state(self, found: Found) -> BundleState:
        """The followed bundle; the few that were used last are kept."""
        known = self._states.pop(found.path, None)
        state = known if known is not None and known.found == found else BundleState(found)
        self._states[found.path] = state
        while len(self._states) > KEPT_STATES:
            self._states.pop(next(iter(self._states)))
        return state

    def _recalled(self, found: Finds) -> Any:
        def recalled(view: BundleView) -> BundleView | None:
            run = self._runs.get(view.name)
            return None if run is None else run.recall(found[view.name][0].path, self.options.publish)

        return recalled

    # -- over all runs

    def _make_wide(self, found: Finds, site: Site, renderer: Renderer, built: Built) -> None:
        before = {path: kept for path, kept in self._wide.items() if self._intact({path: kept})}
        own = (path for run in self._runs.values() for path in run.kept)
        wide = list(_wide_outputs(site, renderer, self.options.timezone))
        if site.base_url is not None:
            every = sorted(
                path for path in (*own, *(made.path for made in wide)) if path.endswith(".html") and path != "404.html"
            )
            site.__dict__["addresses"] = tuple(every)
        self.output.claim(made.path for made in wide)
        self._wide = write_all(wide, self.output, before, built)
        self._wide_for = self._sources(found, site.docs)

    def _tidy(self, built: Built) -> None:
        """Remove what is no longer part of the site, and write down what is."""
        every = {path for kept in (self._wide, *(run.kept for run in self._runs.values())) for path in kept}
        built.removed = self.output.keep_only(every)
        self._account(built)
        self.output.memory = {
            "made_for": self._made_for,
            "runs": {name: run.as_json() for name, run in self._runs.items() if run.summary is not None},
            "wide": {path: [kept.size, kept.changed, kept.inputs] for path, kept in self._wide.items()},
            "wide_for": self._wide_for,
        }
        self.output.save()

    # -- a run that grows

    def grow(
        self,
        changed: Iterable[Path],
        watched: Container[str] = (),
        tell: Callable[[list[str]], None] = lambda written: None,
    ) -> Built | None:
        """Bring up to date what shows the newest lines of these logs (absolute paths).

        The pages `watched` come first; `tell` hears what is written as soon as it is.
        None: more than that changed, and `update` is due. Raises TouchstoneError.
        """
        bundles = self._growing(changed)
        if bundles is None or self._site is None or self._renderer is None:
            return None
        built = Built(runs=len(self._site.bundles))
        self.output.begin()
        for found in bundles:
            state, reach, run = self._states.get(found.path), self._reach.get(found.path), self._runs.get(found.name)
            if state is None or reach is None or run is None or run.place.reduced:
                return None
            try:
                view = withhold(state.refresh(), self.options.publish)
            except OSError:
                return None
            if view.touched is None or Reach.of(view) != reach:
                # What was read is not lost, but no page knows of it yet.
                self._site = None
                return None
            self._site = self._site.grown(view)
            grown = list(outputs(pages.grown(self._site, view), self._site, self._renderer, self.options.timezone))
            self.output.claim(made.path for made in grown)
            home = self._site.home(view)
            first = [made for made in grown if made.path in watched]
            for group in (first, [made for made in grown if made.path not in watched]):
                before = len(built.written)
                for path, kept in write_all(group, self.output, ChainMap(run.kept, self._wide), built).items():
                    known = kept if state.settled else replace(kept, inputs=None)
                    (run.kept if home in path else self._wide)[path] = known
                tell(built.written[before:])
            # Neither is what it was when the rest of the site was made.
            run.signature, self._wide_for = "", ""
        return built

    def _growing(self, changed: Iterable[Path]) -> list[Found] | None:
        """The bundles whose logs changed; None if anything else did."""
        bundles: dict[Found, None] = {}
        for path in changed:
            bundle = self._folders.get(path.parent)
            if bundle is not None and path.name in LOGS:
                bundles[bundle] = None
            elif not path.name.startswith("."):
                return None
        return list(bundles)


def _wide_outputs(site: Site, renderer: Renderer, timezone: str | None) -> Iterator[Made]:
    yield from outputs(pages.wide(site), site, renderer, timezone)
    for path, data in renderer.assets().items():
        yield Made(path, partial(bytes, data))


def build(options: Options) -> Built:
    """Build the site once. Raises TouchstoneError."""
    return Builder(options).update()
