"""Every red flag and every unscored verdict: what a person should look at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from touchstone.i18n import Words
from touchstone.pages.common import Link, frame, verdict_rows
from touchstone.site import VERDICT_ROWS, Page, Site
from touchstone.view import BundleView


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        yield from _pages(site, bundle)


def grown(site: Site, bundle: BundleView) -> Iterator[Page]:
    """The first page, which the monitor leads to; the others follow when the run has rested."""
    yield from islice(_pages(site, bundle), 1)


def _pages(site: Site, bundle: BundleView) -> Iterator[Page]:
    numbers = bundle.judge.noted()
    last = -(-len(numbers) // VERDICT_ROWS)
    for page in range(1, last + 1):
        shown = numbers[(page - 1) * VERDICT_ROWS : page * VERDICT_ROWS]
        counts = (bundle.judge.tally.flagged, bundle.judge.tally.unscored)
        yield Page(
            f"{site.home(bundle)}judge/flagged-{page}.html",
            "flagged.html",
            partial(_context, site, bundle, shown, page, last),
            inputs=site.inputs(bundle, "flagged", page, last, counts, bundle.marks(shown)),
        )


def _context(
    site: Site, bundle: BundleView, numbers: list[int], page: int, last: int, words: Words
) -> Mapping[str, Any]:
    path = f"{site.home(bundle)}judge/"
    seen = (bundle.judge.seen(number) for number in numbers)
    here = f"{path}flagged-{page}.html"
    return {
        **frame(site, bundle, words, "judge"),
        "rows": verdict_rows(site, bundle, filter(None, seen), here=here),
        "red_flags": bundle.judge.tally.flagged,
        "unscored": bundle.judge.tally.unscored,
        "number": page,
        "monitor": Link(path + "index.html"),
        "previous": Link(f"{path}flagged-{page - 1}.html") if page > 1 else None,
        "next": Link(f"{path}flagged-{page + 1}.html") if page < last else None,
    }
