"""Judges side by side: against a reference where one was asked, and on the same answers where two judged them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.i18n import Words
from touchstone.judge_compare import (
    HIGHEST_WINS,
    LOWEST_WINS,
    JudgeQualityRow,
    PackGroup,
    group_by_pack,
    judge_quality_rows,
)
from touchstone.pages.common import Link
from touchstone.pages.compare import eval_of
from touchstone.site import Page, Site
from touchstone.view import BundleView

PATH: Final = "compare-judges/index.html"


def plan(site: Site) -> Iterator[Page]:
    yield Page(PATH, "compare_judges.html", partial(_context, site))


def _context(site: Site, words: Words) -> Mapping[str, Any]:
    groups = group_by_pack(judge_quality_rows(site.bundles))
    shared = _shared(site)
    return {
        "lead": _lead(groups, shared, words),
        "groups": [_group(site, group) for group in groups],
        "shared": shared,
        "models": Link("compare/index.html"),
    }


def _lead(groups: list[PackGroup], shared: list[dict[str, Any]], words: Words) -> str:
    if groups:
        count = sum(len(group.rows) for group in groups)
        return words.n_(
            "%(n)s judging was checked against a reference.", "%(n)s judgings were checked against a reference.", count
        )
    if shared:
        return words._("No judge was checked against a reference yet; below is how judges differ on the same answers.")
    return words._("No judge was checked against a reference yet.")


def _group(site: Site, group: PackGroup) -> dict[str, Any]:
    homes = {bundle.name: site.home(bundle) for bundle in site.bundles}
    return {
        "group": group,
        "rows": [
            {
                "row": row,
                "link": Link(f"{homes[row.bundle]}judge-quality/index.html"),
                "cells": [_metric(group, row, metric) for metric in (*LOWEST_WINS, *HIGHEST_WINS)],
            }
            for row in group.rows
        ],
    }


def _metric(group: PackGroup, row: JudgeQualityRow, metric: str) -> dict[str, Any]:
    value = getattr(row, metric)
    return {
        "metric": metric,
        "value": value,
        "rate": metric != "mean_abs_delta",
        "won": group.winners[metric] == row.key,
    }


def _shared(site: Site) -> list[dict[str, Any]]:
    """Answers that more than one judge scored, with what each made of them."""
    families: dict[str, list[BundleView]] = {}
    for bundle in site.bundles:
        if bundle.judge.done:
            families.setdefault(eval_of(site, bundle), []).append(bundle)
    return [
        {"run": name, "title": _title(bundles), "rows": [_judging(site, bundle) for bundle in reversed(bundles)]}
        for name, bundles in families.items()
        if len({bundle.judge_model for bundle in bundles}) > 1
    ]


def _title(bundles: list[BundleView]) -> str:
    return next((bundle.pack.title for bundle in bundles if bundle.pack is not None), bundles[0].name)


def _judging(site: Site, bundle: BundleView) -> dict[str, Any]:
    tally = bundle.judge.tally
    return {
        "judge": bundle.judge_model,
        "done": tally.done,
        "mean": tally.mean,
        "shares": [count / tally.scored if tally.scored else None for count in tally.histogram[1:6]],
        "red_flags": tally.red_flags,
        "unscored": tally.unscored,
        "link": Link(site.home(bundle) + "judge/index.html"),
        "run": bundle.name,
    }
