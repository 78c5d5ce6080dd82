"""Every verdict, by slot: a verdict that comes later moves no other, and changes one page only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from touchstone.i18n import Words
from touchstone.pages.common import Link, answer_pages, frame, verdict_page, verdict_rows
from touchstone.site import VERDICT_ROWS, Page, Site
from touchstone.view import BundleView


def page_count(bundle: BundleView) -> int:
    """Verdict pages of a bundle: those of the answers, then those of keys without an answer. 0 before any verdict."""
    if not bundle.judge.done:
        return 0
    return answer_pages(bundle) + -(-bundle.keys.strays // VERDICT_ROWS)


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        for number in range(1, page_count(bundle) + 1):
            yield _page(site, bundle, number)


def grown(site: Site, bundle: BundleView) -> Iterator[Page]:
    """The pages that hold what was touched."""
    if bundle.judge.done:
        touched = {verdict_page(bundle, number) for number in bundle.touched or () if bundle.judge.digest(number)}
        if bundle.keys.strays:
            # Their pages come with them; the one before has got a neighbour.
            touched |= {number - 1 for number in touched if number > 1}
        for number in sorted(touched):
            yield _page(site, bundle, number)


def _page(site: Site, bundle: BundleView, number: int) -> Page:
    more = number < page_count(bundle)
    return Page(
        f"{site.home(bundle)}judge/verdicts-{number}.html",
        "verdicts.html",
        partial(_context, site, bundle, number, more),
        inputs=site.inputs(bundle, "verdicts", number, more, bundle.marks(numbers_on(bundle, number))),
    )


def numbers_on(bundle: BundleView, page: int) -> Iterable[int]:
    """Numbers of the keys whose verdicts belong on a page (from 1), judged or not."""
    answered = answer_pages(bundle)
    if page <= answered:
        return bundle.keys.at_slots((page - 1) * VERDICT_ROWS, page * VERDICT_ROWS)
    start = (page - answered - 1) * VERDICT_ROWS
    return bundle.keys.unanswered()[start : start + VERDICT_ROWS]


def _context(site: Site, bundle: BundleView, number: int, more: bool, words: Words) -> Mapping[str, Any]:
    path = f"{site.home(bundle)}judge/"
    here = f"{path}verdicts-{number}.html"
    seen = (bundle.judge.seen(key_number) for key_number in numbers_on(bundle, number))
    return {
        **frame(site, bundle, words, "judge"),
        "rows": verdict_rows(site, bundle, filter(None, seen), here=here),
        "number": number,
        "monitor": Link(path + "index.html"),
        "previous": Link(f"{path}verdicts-{number - 1}.html") if number > 1 else None,
        "next": Link(f"{path}verdicts-{number + 1}.html") if more else None,
    }
