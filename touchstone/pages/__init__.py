"""One module a page kind: which pages there are, and what each of them shows. Pure.

Each module has `plan(site)`, which yields its pages; a new kind is a new module, its template, and its name here.
"""

from __future__ import annotations

from collections.abc import Iterator

from touchstone.pages import (
    answers,
    compare,
    compare_judges,
    data,
    docs,
    eval,
    extras,
    flagged,
    index,
    judge,
    packs,
    quality,
    result,
    search,
    verdicts,
)
from touchstone.site import File, Page, Site
from touchstone.view import BundleView

# Pages that lead to others come after them: whoever follows a link meanwhile finds the page there.
OWN = (answers, verdicts, flagged, judge, eval, quality, result)
"""Pages of one run. They know of the site around them only what `site.Place` holds."""
WIDE = (packs, docs, data, compare, compare_judges, search, index, extras)
"""Pages over all runs. They know of each run only what `summary.Summary` holds."""

# What follows a growing run at once; everything else follows when the run has rested.
GROWING = (verdicts, flagged, judge, eval, index)


def own(site: Site) -> Iterator[Page | File]:
    """Every page and file of the site's runs, each path once."""
    if site.reduced:
        rest = tuple(bundle for bundle in site.bundles if bundle.name not in site.reduced)
        yield from result.plan(site)
        site = site.recalled(rest)
    for kind in OWN if not site.reduced else [kind for kind in OWN if kind is not result]:
        yield from kind.plan(site)
    yield from search.plan_run(site)


def wide(site: Site) -> Iterator[Page | File]:
    """Every page and file over all runs, each path once."""
    for kind in WIDE:
        yield from kind.plan(site)


def plan(site: Site) -> Iterator[Page | File]:
    """Every page and file of the site, each path once."""
    yield from own(site)
    yield from wide(site)


def grown(site: Site, bundle: BundleView) -> Iterator[Page]:
    """The pages that show the lines that just came: as many, however long the run already is."""
    for kind in GROWING:
        yield from kind.grown(site, bundle)
