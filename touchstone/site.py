"""The site as values: what it is made from, and what a page is. Pure.

A page is a path, a template and a way to its context; a file is a path and a way to its bytes. `pages` has one module
a page kind, each with `plan(site)`. Nothing is rendered or written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from posixpath import relpath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from touchstone.docs import Docs
from touchstone.i18n import Words
from touchstone.slugs import hash8, hash64, slugs
from touchstone.view import BundleView

INDEX_ROWS: Final = 50
VERDICT_ROWS: Final = 250
ANSWER_ROWS: Final = 24

Context = Callable[[Words], Mapping[str, Any]]


@dataclass(frozen=True)
class Page:
    """One HTML page, made once for each language."""

    path: str
    """Below the language's root, with /; what links name."""
    template: str
    context: Context
    once: bool = False
    """Only in the first language, like 404.html."""
    inputs: str | None = None
    """Stands for all that the page is made from: while it stays, the page need not be made again. None: unknown."""


@dataclass(frozen=True)
class File:
    """Anything that is not a page: made once, at the root, whatever the languages."""

    path: str
    content: Callable[[], bytes]
    inputs: str | None = None
    """Stands for all that the file is made from; None: unknown."""


class Place(NamedTuple):
    """What the pages of one bundle know of the site around them."""

    slug: str
    pack_home: str | None
    source_run: str | None
    has_docs: bool
    reduced: bool = False
    """Only the run's result is on the site: with all of its pages that would be too large."""


@dataclass(frozen=True)
class Site:
    """Everything that all pages together are made from."""

    bundles: tuple[BundleView, ...]
    """Newest first."""
    langs: tuple[str, ...] = ("en",)
    """First at the root, the others below `<lang>/`."""
    base_url: str | None = None
    """Absolute, with a final slash; only feed, sitemap and the 404 page need it."""
    docs: Docs = field(default_factory=Docs)
    """The user's own Markdown."""
    reduced: frozenset[str] = frozenset()
    """Names of the runs whose result alone is on the site."""
    addresses: tuple[str, ...] = ()
    """Paths of all pages in all languages, for the sitemap."""

    @cached_property
    def slugs(self) -> dict[str, str]:
        """Bundle name to its folder below runs/."""
        return slugs(bundle.name for bundle in self.bundles)

    def home(self, bundle: BundleView) -> str:
        """The bundle's folder, with a final slash: `runs/<slug>/`."""
        return f"runs/{self.slugs[bundle.name]}/"

    @cached_property
    def packs(self) -> dict[str, list[BundleView]]:
        """Pack page folder (`packs/<id>/`, `packs/<id>-<sha8>/`) to the bundles asked with exactly that pack.

        The newest bundle's pack has the plain address; another sha under the same id has its own page.
        """
        folders: dict[tuple[str, str | None], str] = {}
        taken: set[str] = set()
        result: dict[str, list[BundleView]] = {}
        for bundle in self.bundles:
            if bundle.pack is None:
                continue
            key = (bundle.pack.id, bundle.pack_sha)
            if key not in folders:
                plain = slugs([bundle.pack.id])[bundle.pack.id]
                name = plain if plain not in taken else f"{plain}-{(bundle.pack_sha or hash8(plain))[:8]}"
                while name in taken:
                    # A pack can be called what we would call another one.
                    name = f"{plain[:30]}-{hash64(name)}"
                taken.add(name)
                folders[key] = f"packs/{name}/"
            result.setdefault(folders[key], []).append(bundle)
        return result

    def place(self, bundle: BundleView) -> Place:
        """What the bundle's pages know of the site."""
        return Place(
            self.slugs[bundle.name],
            self.pack_home(bundle),
            self.source_run(bundle),
            self.has_docs,
            bundle.name in self.reduced,
        )

    @cached_property
    def has_docs(self) -> bool:
        """Whether there are pages of the user's own to lead to."""
        return bool(self.docs.pages)

    def inputs(self, bundle: BundleView, *rows: object) -> str | None:
        """What a page of this bundle alone is made from; None where the bundle cannot tell.

        With `rows`: a page that shows these, and else only what all pages of the bundle show alike.
        """
        if not bundle.revision:
            return None
        around = (self.place(bundle), self.langs, self.base_url)
        if not rows:
            return hash64(repr((bundle.revision, around)))[:24]
        tabs = (bundle.keys.slots > 0, bundle.eval.done > 0 or bundle.eval.started)
        return hash64(repr((bundle.name, bundle.documents, tabs, rows, around)))[:24]

    def grown(self, view: BundleView) -> Site:
        """The same site with a newer view of one of its bundles; what all bundles have in common is not found anew."""
        bundles = tuple(view if bundle.name == view.name else bundle for bundle in self.bundles)
        return self._like(bundles, ("slugs", "packs", "_pack_homes", "_source_runs", "has_docs"))

    def recalled(self, bundles: tuple[BundleView, ...]) -> Site:
        """The same site with other views of the same bundles, which have the same documents."""
        return self._like(bundles, ("slugs", "_pack_homes", "_source_runs", "has_docs"))

    def reduced_to(self, names: frozenset[str]) -> Site:
        """The same site, of whose runs these show their result alone."""
        known = ("slugs", "packs", "_pack_homes", "_source_runs", "has_docs")
        return self._like(self.bundles, known, reduced=names)

    def _like(self, bundles: tuple[BundleView, ...], names: Iterable[str], **more: Any) -> Site:
        site = replace(self, bundles=bundles, **more)
        for name in names:
            site.__dict__[name] = getattr(self, name)
        return site

    @classmethod
    def alone(cls, bundle: BundleView, place: Place, langs: tuple[str, ...], base_url: str | None) -> Site:
        """A site that knows of one bundle, and of the others what its pages need: enough to make those."""
        site = cls((bundle,), langs, base_url, reduced=frozenset([bundle.name] if place.reduced else []))
        site.__dict__["slugs"] = {bundle.name: place.slug}
        site.__dict__["_pack_homes"] = {bundle.name: place.pack_home}
        site.__dict__["_source_runs"] = {bundle.name: place.source_run}
        site.__dict__["has_docs"] = place.has_docs
        return site

    @cached_property
    def _pack_homes(self) -> dict[str, str | None]:
        return {bundle.name: home for home, bundles in self.packs.items() for bundle in bundles}

    def pack_home(self, bundle: BundleView) -> str | None:
        """The folder of the page of this bundle's pack; None without a readable pack."""
        return self._pack_homes.get(bundle.name)

    @cached_property
    def _source_runs(self) -> dict[str, str | None]:
        by_folder: dict[str, str] = {}
        for bundle in self.bundles:
            by_folder.setdefault(bundle.name.rpartition("/")[2], self.home(bundle))
        derived = ((bundle.name, bundle.manifest and bundle.manifest.derived_from) for bundle in self.bundles)
        return {name: by_folder.get(source) if source else None for name, source in derived}

    def source_run(self, bundle: BundleView) -> str | None:
        """The folder of the run that this one's answers come from; None if it has none, or that is not here."""
        return self._source_runs.get(bundle.name)

    @cached_property
    def _reduced_homes(self) -> tuple[str, ...]:
        return tuple(f"runs/{self.slugs[name]}/" for name in sorted(self.reduced))

    def there(self, target: str) -> tuple[str, bool]:
        """Where a link to page `target` leads, and whether that is the page itself.

        Of a run whose result alone is on the site everything leads to that, which says why.
        """
        if self.reduced:
            for home in self._reduced_homes:
                if target.startswith(home) and target != home + "index.html":
                    return home + "index.html", False
        return target, True

    def lang_root(self, lang: str) -> str:
        """Empty for the first language, else `<lang>/`."""
        return "" if lang == self.langs[0] else f"{lang}/"


_DATED: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)_(\d\d)(\d\d)(\d\d)(?!\d)", re.ASCII)


def age(bundle: BundleView) -> tuple[float, str]:
    """Orders runs by when they were made: as bundle.yaml says, else the folder's name; what has no date is oldest."""
    created = None if bundle.manifest is None else bundle.manifest.created
    with suppress(ValueError, OverflowError, OSError):
        dated = _DATED.match(bundle.name.rpartition("/")[2])
        if created is None and dated is not None:
            created = datetime.strptime("".join(dated.groups()), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        if created is not None:
            return created.timestamp(), bundle.name
    return 0.0, bundle.name


def relative(source: str, target: str, fragment: str = "") -> str:
    """The relative, percent-encoded link from page `source` to `target` (both from the output's root)."""
    link = _link(source.rpartition("/")[0], target)
    return f"{link}#{quote(fragment)}" if fragment else link


@lru_cache(maxsize=4096)
def _link(folder: str, target: str) -> str:
    link = quote(relpath(target, folder or "."), safe="/~!$&'()*+,;=@")
    # A first part with a colon would read as a scheme.
    if ":" in link.split("/", 1)[0]:
        link = "./" + link
    return link


def batches(count: int, size: int) -> Iterable[tuple[int, int, int]]:
    """(page number from 1, start, stop) over `count` things, `size` a page; one empty page for none."""
    total = max(1, -(-count // size))
    return ((page, (page - 1) * size, min(page * size, count)) for page in range(1, total + 1))
