"""The start page: all runs, newest first, fifty a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from touchstone.i18n import Words
from touchstone.pages.common import Link, is_replay, recommendation_counts, run_title
from touchstone.pages.result import lead
from touchstone.pages.search import plan as search_files
from touchstone.site import INDEX_ROWS, Page, Site, batches
from touchstone.slugs import hash8
from touchstone.view import BundleView


def address(number: int) -> str:
    """The path of index page `number` (from 1)."""
    return "index.html" if number == 1 else f"index-{number}.html"


def plan(site: Site) -> Iterator[Page]:
    last = -(-len(site.bundles) // INDEX_ROWS)
    for number, start, stop in batches(len(site.bundles), INDEX_ROWS):
        yield Page(address(number), "index.html", partial(_context, site, number, start, stop, number < last))


def grown(site: Site, bundle: BundleView) -> Iterator[Page]:
    """The page with the bundle's row."""
    place = next(place for place, each in enumerate(site.bundles) if each is bundle)
    yield from islice(plan(site), place // INDEX_ROWS, place // INDEX_ROWS + 1)


def _context(site: Site, number: int, start: int, stop: int, more: bool, words: Words) -> Mapping[str, Any]:
    return {
        "lead": _lead(site, words),
        "rows": [_row(site, bundle, words) for bundle in site.bundles[start:stop]],
        "newer": Link(address(number - 1)) if number > 1 else None,
        "older": Link(address(number + 1)) if more else None,
        "first": number == 1,
        "search_parts": search_parts(site),
        "packs": [_pack(home, bundles) for home, bundles in site.packs.items()] if number == 1 else [],
    }


def search_parts(site: Site) -> int:
    """How many scripts hold what the search looks through, verdicts left out."""
    return sum(1 for _ in search_files(site))


def _lead(site: Site, words: Words) -> str:
    """The newest run as a sentence."""
    if not site.bundles:
        return words._("No runs yet.")
    newest = site.bundles[0]
    return f"{run_title(newest, words)}: {lead(newest, words)}"


def _pack(home: str, bundles: list[BundleView]) -> dict[str, Any]:
    pack = bundles[0].pack
    title = "" if pack is None else pack.title
    return {"title": title, "folder": home.split("/")[1], "runs": len(bundles), "link": Link(home + "index.html")}


def _row(site: Site, bundle: BundleView, words: Words) -> dict[str, Any]:
    tally = bundle.judge.tally
    return {
        "id": "r-" + hash8(bundle.name),
        "name": bundle.name,
        "title": run_title(bundle, words),
        "href": Link(site.home(bundle) + "index.html"),
        "judge": bundle.judge_model,
        "done": bundle.judge.done,
        "total": bundle.judge.total,
        "best": bundle.rows[0] if bundle.rows and bundle.rows[0].weighted.pct is not None else None,
        "red_flags": tally.red_flags,
        "recommendations": recommendation_counts(bundle),
        "broken": bundle.broken_lines,
        "replay": is_replay(bundle),
    }
