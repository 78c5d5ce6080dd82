"""Models and machines by pack, over all runs: a ranking for each judge, and each eval's speed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.events import ModelSpeed
from touchstone.i18n import Words
from touchstone.pages.common import Link
from touchstone.pages.lineage import eval_names, one_per_eval
from touchstone.pages.ranking import Ranking, agreement, ranking, ranking_words
from touchstone.pages.speed_plot import speed_plot
from touchstone.report_md import safety_words
from touchstone.site import Page, Site
from touchstone.view import BundleView

ROWS_SHOWN: Final = 25
"""Rows of a table before the others are folded."""

PackKey = tuple[str | None, str | None]
"""Pack id and sha256; None where a run does not say."""


def plan(site: Site) -> Iterator[Page]:
    yield Page("compare/index.html", "compare.html", partial(_context, site))


def by_pack(site: Site) -> dict[PackKey, list[BundleView]]:
    """The runs of each pack, packs by their newest run, runs newest first."""
    groups: dict[PackKey, list[BundleView]] = {}
    for bundle in site.bundles:
        groups.setdefault((bundle.pack_id, bundle.pack_sha if bundle.pack_id else None), []).append(bundle)
    return groups


def pack_heads(site: Site, words: Words) -> dict[PackKey, dict[str, Any]]:
    """How a pack is called in headings: its title, with the start of its sha where another one has the same id."""
    homes = {bundle.name: home for home, bundles in site.packs.items() for bundle in bundles}
    groups = by_pack(site)
    ids = [pack_id for pack_id, _ in groups]
    heads = {}
    for (pack_id, sha), bundles in groups.items():
        pack = next((bundle.pack for bundle in bundles if bundle.pack is not None), None)
        home = next((homes[bundle.name] for bundle in bundles if bundle.name in homes), None)
        plain = words._("Pack %(id)s", id=pack_id) if pack_id else words._("Pack unknown")
        heads[pack_id, sha] = {
            "title": pack.title if pack is not None else plain,
            "lang": pack.language if pack is not None else None,
            "sha": sha[:8] if sha and pack_id and ids.count(pack_id) > 1 else None,
            "home": None if home is None else Link(home + "index.html"),
        }
    return heads


def _context(site: Site, words: Words) -> Mapping[str, Any]:
    names = eval_names(site.bundles)
    heads = pack_heads(site, words)
    groups = [_group(site, heads[key], bundles, names, words) for key, bundles in by_pack(site).items()]
    shown = [group for group in groups if group["rankings"] or group["speeds"]]
    first = next((group for group in shown if group["rankings"]), None)
    return {
        "lead": _lead(first, words),
        "groups": shown,
        "judges": Link("compare-judges/index.html"),
        "rows_shown": ROWS_SHOWN,
    }


def _lead(group: dict[str, Any] | None, words: Words) -> str:
    if group is None:
        return words._("Nothing to compare yet: no run has been judged.")
    return f"{group['head']['title']}: {group['finding'] or group['rankings'][0]['words']}"


def _group(
    site: Site, head: dict[str, Any], bundles: list[BundleView], names: dict[str, str], words: Words
) -> dict[str, Any]:
    judged: dict[str | None, list[BundleView]] = {}
    for bundle in bundles:
        if bundle.judged:
            judged.setdefault(bundle.judge_model, []).append(bundle)
    rankings = [(judge, ranking(runs)) for judge, runs in judged.items()]
    speeds = _speeds(site, bundles, names)
    measured = {(row["eval"], row["model"]): row for row in speeds}
    return {
        "head": head,
        "finding": agreement([each for _, each in rankings], names, words),
        "rankings": [_ranking(site, judge, each, names, measured, words) for judge, each in rankings if each.places],
        "speeds": speeds,
        "finding_speed": _fastest(speeds, words),
    }


def _ranking(
    site: Site,
    judge: str | None,
    ranked: Ranking,
    names: dict[str, str],
    measured: dict[tuple[str, str], dict[str, Any]],
    words: Words,
) -> dict[str, Any]:
    rows = []
    for place in ranked.places:
        speed = measured.get((names[place.bundle.name], place.cell.model), {})
        row = place.row
        rows.append(
            {
                "place": place.number,
                "tied": place.tied,
                "model": place.cell.model,
                "variant": place.cell.variant,
                "recommendation": None if row is None else row.recommendation,
                "pct": None if row is None else row.weighted.pct,
                "partial": row is not None and row.weighted.partial and row.weighted.pct is not None,
                "passed": None if row is None else row.safety.passed,
                "safety": words._("no pack") if row is None else safety_words(row.safety, place.bundle.pack, words),
                "mean": place.tally.mean,
                "latency_p50": speed.get("latency_p50"),
                "gen_tps": speed.get("gen_tps"),
                "run": place.bundle.name,
                "link": Link(site.home(place.bundle) + "index.html"),
            }
        )
    one_run = len({row["run"] for row in rows}) == 1
    return {
        "judge": judge,
        "rows": rows,
        "plot": speed_plot(rows, words),
        "words": ranking_words(ranked, words),
        "run": (rows[0]["run"], rows[0]["link"]) if one_run else None,
        "timed": any(row["latency_p50"] is not None for row in rows),
    }


def _speeds(site: Site, bundles: list[BundleView], names: dict[str, str]) -> list[dict[str, Any]]:
    """One row a model and eval, fastest first; an eval that several judges looked at counts once."""
    rows = [
        _speed(site, speed, name, bundle)
        for name, bundle in one_per_eval(bundles, names)
        for speed in bundle.eval.speeds()
        if speed.measured
    ]
    return sorted(rows, key=lambda row: (row["latency_p50"], row["model"], row["run"]))


def _speed(site: Site, speed: ModelSpeed, name: str, bundle: BundleView) -> dict[str, Any]:
    manifest = bundle.manifest
    host = manifest.host if manifest is not None else None
    return {
        "model": speed.model,
        "eval": name,
        "run": bundle.name,
        "link": Link(site.home(bundle) + "eval/index.html"),
        "measured": speed.measured,
        "latency_p50": speed.latency_p50,
        "latency_p95": speed.latency_p95,
        "ttft_p50": speed.ttft_p50,
        "gen_tps": speed.gen_tps,
        "machine": " · ".join(filter(None, (host.cpu, host.gpu, host.os))) if host is not None else "",
        "ram": host.ram_bytes if host is not None else None,
        "peak_ram": manifest.peak_ram_bytes if manifest is not None else None,
    }


def _fastest(speeds: list[dict[str, Any]], words: Words) -> str:
    """The speed table in a sentence; equal means equal as shown."""
    shown = [words.seconds(row["latency_p50"]) for row in speeds]
    if not shown:
        return ""
    if shown.count(shown[0]) > 1:
        return words._("Several models are equally fast: half of their answers took up to %(time)s.", time=shown[0])
    return words._(
        "%(model)s is the fastest: half of its answers took up to %(time)s.", model=speeds[0]["model"], time=shown[0]
    )
