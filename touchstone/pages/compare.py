"""Models and machines, by pack, over all runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from touchstone.events import ModelSpeed
from touchstone.i18n import Words
from touchstone.pages.common import Link, cell_name
from touchstone.report_md import safety_words
from touchstone.scorecard import NO, MasterRow, ranked
from touchstone.site import Page, Site
from touchstone.view import BundleView


def plan(site: Site) -> Iterator[Page]:
    yield Page("compare/index.html", "compare.html", partial(_context, site))


def _context(site: Site, words: Words) -> Mapping[str, Any]:
    groups = [_group(site, home, bundles, words) for home, bundles in site.packs.items()]
    return {"groups": [group for group in groups if group["rows"]], "judges": Link("compare-judges/index.html")}


def eval_of(site: Site, bundle: BundleView) -> str:
    """The run that the answers come from: siblings for other judges share it, and its speed counts once."""
    by_name = {each.name.rpartition("/")[2]: each for each in site.bundles}
    seen: set[str] = set()
    while bundle.manifest is not None and (parent := bundle.manifest.derived_from) and bundle.name not in seen:
        seen.add(bundle.name)
        if parent not in by_name:
            return parent
        bundle = by_name[parent]
    return bundle.name


def _group(site: Site, home: str, bundles: list[BundleView], words: Words) -> dict[str, Any]:
    entries = [(row, bundle) for bundle in bundles for row in bundle.rows if row.tally.done]
    order = {id(row): position for position, row in enumerate(ranked([row for row, _ in entries]))}
    entries.sort(key=lambda entry: order[id(entry[0])])
    pack = bundles[0].pack
    assert pack is not None
    ranks = _ranks(entries)
    return {
        "pack": pack,
        "home": Link(home + "index.html"),
        "lead": _lead([row for row, _ in entries], words),
        "rows": [_row(site, *entry, rank, words) for entry, rank in zip(entries, ranks, strict=True)],
        "speeds": _speeds(site, bundles),
    }


def _key(row: MasterRow) -> tuple[object, object]:
    return (row.recommendation, row.weighted.exact_pct)


def _ranks(entries: list[tuple[MasterRow, BundleView]]) -> list[tuple[int | None, bool]]:
    """(place, shared) of each row, best first; equal rows share a place, rows without a quality have none."""
    keys = [_key(row) for row, _ in entries]
    places = []
    for index, (row, _) in enumerate(entries):
        known = row.weighted.exact_pct is not None
        places.append((keys.index(keys[index]) + 1 if known else None, known and keys.count(keys[index]) > 1))
    return places


def _lead(rows: list[MasterRow], words: Words) -> str:
    best = [row for row in rows if row.weighted.exact_pct is not None and row.recommendation != NO]
    if not rows:
        return ""
    if not best:
        return words._("No model can be recommended for this pack so far.")
    first = [row for row in best if _key(row) == _key(best[0])]
    if len({row.cell for row in first}) > 1:
        return words.n_("%(n)s cell shares first place.", "%(n)s cells share first place.", len(first))
    return words._("%(cell)s is ahead with %(pct)s.", cell=cell_name(first[0]), pct=words.pct(first[0].weighted.pct))


def _row(site: Site, row: MasterRow, bundle: BundleView, rank: tuple[int | None, bool], words: Words) -> dict[str, Any]:
    return {
        "rank": rank[0],
        "tied": rank[1],
        "model": row.cell.model,
        "variant": row.cell.variant,
        "recommendation": row.recommendation,
        "pct": row.weighted.pct,
        "partial": row.weighted.partial and row.weighted.pct is not None,
        "passed": row.safety.passed,
        "safety": safety_words(row.safety, bundle.pack, words),
        "mean": row.tally.mean,
        "judge": bundle.judge_model,
        "run": bundle.name,
        "link": Link(site.home(bundle) + "index.html"),
    }


def _speeds(site: Site, bundles: list[BundleView]) -> list[dict[str, Any]]:
    """One row a model and eval, fastest first."""
    evals: dict[str, BundleView] = {}
    for bundle in bundles:
        source = eval_of(site, bundle)
        if source not in evals or bundle.name == source:
            evals[source] = bundle
    rows = [_speed(speed, name, bundle) for name, bundle in evals.items() for speed in bundle.eval.speeds()]
    return sorted(
        (row for row in rows if row["measured"]), key=lambda row: (row["latency_p50"], row["model"], row["run"])
    )


def _speed(speed: ModelSpeed, name: str, bundle: BundleView) -> dict[str, Any]:
    host = bundle.manifest.host if bundle.manifest is not None else None
    return {
        "model": speed.model,
        "run": name,
        "measured": speed.measured,
        "latency_p50": speed.latency_p50,
        "latency_p95": speed.latency_p95,
        "ttft_p50": speed.ttft_p50,
        "gen_tps": speed.gen_tps,
        "cpu": host.cpu if host is not None else None,
        "ram": host.ram_bytes if host is not None else None,
    }
