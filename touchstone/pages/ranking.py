"""Cells in order, best first, with ties as ties; and the order in words. One judge, one pack: one yardstick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from touchstone.contracts.lines import Cell
from touchstone.i18n import Words
from touchstone.judge_events import Tally
from touchstone.scorecard import LIMITED, NO, YES, MasterRow
from touchstone.view import BundleView

PLACES_NAMED: Final = 5
"""How many places a sentence names before it counts the rest."""

_RANK: Final = {YES: 0, LIMITED: 1, None: 2, NO: 3}


@dataclass(frozen=True, slots=True)
class Place:
    """One cell of one run, and where it stands."""

    number: int | None
    """From 1; equal cells share a place. None where there is nothing to rank by."""
    tied: bool
    cell: Cell
    tally: Tally
    row: MasterRow | None
    """None without a pack."""
    bundle: BundleView


@dataclass(frozen=True, slots=True)
class Ranking:
    """All cells that one judge scored with one pack."""

    places: tuple[Place, ...]
    by_quality: bool
    """False: there is no quality (no reports), so the mean score decides."""


def ranking(bundles: Sequence[BundleView]) -> Ranking:
    """The judged cells of these runs: by recommendation, then by quality; without any quality by the mean score.

    Figures that look the same on the page (quality to whole per cent, mean to two decimals) are ties.
    """
    entries = [entry for bundle in bundles for entry in _entries(bundle)]
    by_quality = any(place.row is not None and place.row.weighted.pct is not None for place in entries)
    orders = {id(place): _order(place, by_quality) for place in entries}
    entries.sort(key=lambda place: (orders[id(place)] or _LAST, place.cell, place.bundle.name))
    sorted_orders = [orders[id(place)] for place in entries]
    counts = Counter(sorted_orders)
    firsts = {order: number for number, order in reversed(list(enumerate(sorted_orders, 1)))}
    places = [
        replace(place, number=firsts[order], tied=counts[order] > 1) if order is not None else place
        for place, order in zip(entries, sorted_orders, strict=True)
    ]
    return Ranking(tuple(places), by_quality)


_LAST: Final = (9, 0.0)


def _entries(bundle: BundleView) -> list[Place]:
    """The judged cells of one run, not yet in order."""
    rows = {row.cell: row for row in bundle.rows}
    return [
        Place(None, False, facts.cell, facts.tally, rows.get(facts.cell), bundle)
        for facts in bundle.cells
        if facts.tally.done or facts.report is not None
    ]


def _order(place: Place, by_quality: bool) -> tuple[int, float] | None:
    """What a place is ranked by, smaller is better; None where there is no figure."""
    row = place.row
    value = (None if row is None else row.weighted.pct) if by_quality else place.tally.mean
    if value is None:
        return None
    return _RANK[None if row is None else row.recommendation], -round(value, 0 if by_quality else 2)


def _names(places: Sequence[Place]) -> list[str]:
    """How a sentence calls each place: the model, with the variant and the run only where they tell cells apart."""
    variants = len({place.cell.variant for place in places}) > 1
    names = [f"{place.cell.model} ({place.cell.variant})" if variants else place.cell.model for place in places]
    return [
        f"{name} ({place.bundle.name})" if names.count(name) > 1 else name
        for name, place in zip(names, places, strict=True)
    ]


def ranking_words(ranked: Ranking, words: Words) -> str:
    """The order as a sentence: `a, then b and c (tied), then d`."""
    known = [(place, name) for place, name in zip(ranked.places, _names(ranked.places), strict=True) if place.number]
    if not known:
        return words._("There is no score to rank by yet.")
    groups = [[name for _, name in members] for _, members in groupby(known, key=lambda pair: pair[0].number)]
    parts = [_tied(names, words) for names in groups[:PLACES_NAMED]]
    text = parts[0]
    for part in parts[1:]:
        text = words._("%(before)s, then %(next)s", before=text, next=part)
    rest = sum(len(names) for names in groups[PLACES_NAMED:])
    if rest:
        text = words.n_("%(before)s, and %(n)s more", "%(before)s, and %(n)s more", rest, before=text)
    if _none_recommended(ranked):
        return words._("None of them is recommended; by quality: %(order)s.", order=text)
    if ranked.by_quality:
        return words._("By recommendation and quality: %(order)s.", order=text)
    return words._("By mean score, because there is no quality yet: %(order)s.", order=text)


def _none_recommended(ranked: Ranking) -> bool:
    """Whether the answer is no for every cell: then a first place is no praise."""
    return ranked.by_quality and all(
        place.row is not None and place.row.recommendation == NO for place in ranked.places if place.number
    )


def _tied(names: list[str], words: Words) -> str:
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:PLACES_NAMED]) + (" …" if len(names) > PLACES_NAMED else "")
    return words._("%(names)s (tied)", names=shown)


def agreement(rankings: Sequence[Ranking], evals: Mapping[str, str], words: Words) -> str:
    """Whether judges of the same answers put the same cell first; empty where no two judged the same.

    `evals` tells which run a bundle's answers come from.
    """
    groups: dict[frozenset[tuple[str, Cell]], list[Ranking]] = {}
    for each in rankings:
        judged = frozenset((evals[place.bundle.name], place.cell) for place in each.places)
        if any(place.number for place in each.places):
            groups.setdefault(judged, []).append(each)
    alike = max(groups.values(), key=len, default=[])
    if len(alike) < 2:
        return ""
    if all(map(_none_recommended, alike)):
        return words.n_(
            "The judge recommends none of them.",
            "The %(n)s judges of the same answers recommend none of them.",
            len(alike),
        )
    shared = set.intersection(*({place.cell for place in each.places if place.number == 1} for each in alike))
    if not shared:
        return words.n_(
            "The judge of these answers names no first place.",
            "The %(n)s judges of the same answers do not agree on the first place.",
            len(alike),
        )
    names = [
        name
        for place, name in zip(alike[0].places, _names(alike[0].places), strict=True)
        if place.number == 1 and place.cell in shared
    ]
    best = names[0] if len(names) == 1 else _tied(names, words)
    return words.n_(
        "The judge puts %(cell)s first.",
        "The %(n)s judges of the same answers put %(cell)s first.",
        len(alike),
        cell=best,
    )
