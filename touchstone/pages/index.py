"""The start page: all runs, newest first, fifty a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from touchstone.i18n import Words
from touchstone.pages.common import Link, recommendation_counts, run_title
from touchstone.site import INDEX_ROWS, Page, Site, batches
from touchstone.view import BundleView


def address(number: int) -> str:
    """The path of index page `number` (from 1)."""
    return "index.html" if number == 1 else f"index-{number}.html"


def plan(site: Site) -> Iterator[Page]:
    last = -(-len(site.bundles) // INDEX_ROWS)
    for number, start, stop in batches(len(site.bundles), INDEX_ROWS):
        yield Page(address(number), "index.html", partial(_context, site, number, start, stop, number < last))


def _context(site: Site, number: int, start: int, stop: int, more: bool, words: Words) -> Mapping[str, Any]:
    return {
        "lead": _lead(site, words),
        "rows": [_row(site, bundle, words) for bundle in site.bundles[start:stop]],
        "newer": Link(address(number - 1)) if number > 1 else None,
        "older": Link(address(number + 1)) if more else None,
        "first": number == 1,
    }


def _lead(site: Site, words: Words) -> str:
    """The newest run as a sentence."""
    if not site.bundles:
        return words._("No runs yet. The first one starts with touchstone eval.")
    newest = site.bundles[0]
    judge = newest.judge
    name = run_title(newest, words)
    if not newest.judged:
        return words._("The newest run is %(run)s. Nobody has judged it yet.", run=name)
    return words.n_(
        "The newest run is %(run)s: %(n)s verdict, mean score %(mean)s.",
        "The newest run is %(run)s: %(n)s verdicts, mean score %(mean)s.",
        judge.done,
        run=name,
        mean=words.number(judge.tally.mean, 2),
    )


def _row(site: Site, bundle: BundleView, words: Words) -> dict[str, Any]:
    best = bundle.rows[0] if bundle.rows else None
    return {
        "name": bundle.name,
        "href": Link(site.home(bundle) + "index.html"),
        "created": bundle.manifest.created if bundle.manifest else None,
        "pack": bundle.pack.title if bundle.pack else bundle.pack_id,
        "judge": bundle.judge_model,
        "done": bundle.judge.done,
        "total": bundle.judge.total,
        "mean": bundle.judge.tally.mean,
        "red_flags": bundle.judge.tally.red_flags,
        "unscored": bundle.judge.tally.unscored,
        "best": best,
        "recommendations": recommendation_counts(bundle),
        "broken": bundle.broken_lines,
    }
