"""Every verdict, by slot: a verdict that comes later moves no other, and changes one page only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from touchstone.i18n import Words
from touchstone.pages.common import Link, answer_pages, frame, prompt_titles, verdict_row
from touchstone.site import VERDICT_ROWS, Page, Site
from touchstone.view import BundleView


def page_count(bundle: BundleView) -> int:
    """Verdict pages of a bundle: those of the answers, then those of keys without an answer. 0 before any verdict."""
    if not bundle.judge.done:
        return 0
    return answer_pages(bundle) + -(-len(bundle.strays) // VERDICT_ROWS)


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        last = page_count(bundle)
        for number in range(1, last + 1):
            path = f"{site.home(bundle)}judge/verdicts-{number}.html"
            yield Page(path, "verdicts.html", partial(_context, site, bundle, number, last), inputs=site.inputs(bundle))


def numbers_on(bundle: BundleView, page: int) -> Iterable[int]:
    """Numbers of the keys whose verdicts belong on a page (from 1), judged or not."""
    answered = answer_pages(bundle)
    if page <= answered:
        return bundle.keys.at_slots((page - 1) * VERDICT_ROWS, page * VERDICT_ROWS)
    start = (page - answered - 1) * VERDICT_ROWS
    return bundle.strays[start : start + VERDICT_ROWS]


def _context(site: Site, bundle: BundleView, number: int, last: int, words: Words) -> Mapping[str, Any]:
    path = f"{site.home(bundle)}judge/"
    here = f"{path}verdicts-{number}.html"
    titles = prompt_titles(bundle)
    seen = (bundle.judge.seen(key_number) for key_number in numbers_on(bundle, number))
    return {
        **frame(site, bundle, words, "judge"),
        "rows": [verdict_row(site, bundle, entry, titles, here=here) for entry in seen if entry is not None],
        "number": number,
        "monitor": Link(path + "index.html"),
        "previous": Link(f"{path}verdicts-{number - 1}.html") if number > 1 else None,
        "next": Link(f"{path}verdicts-{number + 1}.html") if number < last else None,
    }
