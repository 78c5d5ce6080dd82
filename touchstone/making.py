"""Pages to files: the one way from a planned page to bytes on disk, for whoever builds, watches or monitors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import assert_never

from touchstone import pages
from touchstone.bundle import BundleState
from touchstone.i18n import Words
from touchstone.output import Folder, Kept
from touchstone.publishing import Publish, withhold
from touchstone.render import Renderer
from touchstone.site import File, Page, Place, Site
from touchstone.store.bundles import Found
from touchstone.summary import Summary, summarise
from touchstone.view import BundleView


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
                yield Made(item.path, item.content, item.inputs)
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


@dataclass(slots=True)
class Tally:
    """What was done to files."""

    written: list[str] = field(default_factory=list)
    unchanged: int = 0
    bytes: int = 0
    """Of all files, written or not."""

    def add(self, other: Tally) -> None:
        self.written += other.written
        self.unchanged += other.unchanged
        self.bytes += other.bytes


def write_all(planned: Iterable[Made], folder: Folder, before: Mapping[str, Kept], tally: Tally) -> dict[str, Kept]:
    """Render and write what is not made from the same inputs as before. Raises TouchstoneError."""
    after: dict[str, Kept] = {}
    for made in planned:
        known = before.get(made.path)
        if known is not None and known.inputs is not None and known.inputs == made.inputs:
            after[made.path] = known
            tally.unchanged += 1
            tally.bytes += known.size
            continue
        data = made.content()
        if folder.write(made.path, data):
            tally.written.append(made.path)
        else:
            tally.unchanged += 1
        tally.bytes += len(data)
        kept = folder.kept(made.path, made.inputs)
        if kept is not None:
            after[made.path] = kept
    return after


# -- one run


@dataclass(frozen=True)
class Settings:
    """What all runs of a build have in common; small, for it travels to other processes."""

    out: Path
    claims: Path
    langs: tuple[str, ...]
    base_url: str | None
    timezone: str | None
    templates: Path | None
    publish: Publish
    noindex: bool


@dataclass(frozen=True)
class Job:
    """One run whose pages are to be brought up to date."""

    found: Found
    place: Place
    before: dict[str, Kept]
    """Its files as they are known to lie in the output folder."""


@dataclass
class Done:
    """What became of a job."""

    summary: Summary
    kept: dict[str, Kept]
    tally: Tally
    notes: list[str]
    settled: bool = True
    """All of the run could be read."""

    def unsettled(self) -> Done:
        """The same of a run that could not: its pages stand for nothing, and the next build makes them again."""
        kept = {path: replace(each, inputs=None) for path, each in self.kept.items()}
        return replace(self, kept=kept, notes=[*self.notes, half_read(self.summary.name)], settled=False)


def half_read(name: str) -> str:
    """What a build says of a run that is there, but could not be read in full."""
    return f"{name}: could not be read in full; the next build looks again"


def view_notes(view: BundleView) -> Iterator[str]:
    """What is odd about a bundle, a line each."""
    for name, problems in view.problems.items():
        line, reason = problems.first[0]
        more = f" (and {problems.count - 1} more)" if problems.count > 1 else ""
        yield f"{view.name}/{name}:{line}: {reason}{more}"
    yield from (f"{view.name}: {note}" for note in view.notes)


def make_run(job: Job, view: BundleView, settings: Settings, folder: Folder, renderer: Renderer) -> Done:
    """Render and write the pages of one run. Raises TouchstoneError."""
    notes, view = list(view_notes(view)), withhold(view, settings.publish)
    site = Site.alone(view, job.place, settings.langs, settings.base_url)
    planned = list(outputs(pages.own(site), site, renderer, settings.timezone))
    folder.announce(made.path for made in planned if made.path not in job.before)
    tally = Tally()
    kept = write_all(planned, folder, job.before, tally)
    return Done(summarise(view), kept, tally, notes)


def read_and_make(job: Job, settings: Settings) -> Done:
    """`make_run` in a process that knows nothing yet. Raises TouchstoneError, or OSError if the run cannot be read."""
    state = BundleState(job.found)
    folder, renderer = Folder(settings.out, settings.claims), _renderer(settings.templates, settings.noindex)
    done = make_run(job, state.refresh(), settings, folder, renderer)
    return done if state.settled else done.unsettled()


@lru_cache(maxsize=4)
def _renderer(templates: Path | None, noindex: bool) -> Renderer:
    return Renderer(templates, noindex=noindex)


def code_fingerprint() -> str:
    """Changes whenever the code does that turns runs into pages."""
    package = Path(__file__).parent
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(package.rglob("*.py"))]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:24]
