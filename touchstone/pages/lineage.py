"""Which runs share their answers: `judge --into` makes a sibling of a run, with the same answers and another judge."""

from __future__ import annotations

from collections.abc import Iterable

from touchstone.contracts.lines import Cell
from touchstone.view import BundleView


def eval_names(bundles: Iterable[BundleView]) -> dict[str, str]:
    """Bundle name to the name of the run that its answers were made in: its own, unless it is derived from another.

    `derived_from` is followed to its end. A run that is not there (any more) still holds its descendants together; of
    runs that derive from each other in a circle the first by name stands for all.
    """
    parents = _parents(list(bundles))
    return {name: _root(name, parents) for name in parents}


def _root(name: str, parents: dict[str, str | None]) -> str:
    path = [name]
    while (parent := parents.get(path[-1])) is not None:
        if parent in path:
            return min(path[path.index(parent) :])
        path.append(parent)
    return path[-1]


def _parents(bundles: list[BundleView]) -> dict[str, str | None]:
    """Bundle name to the name of the bundle it is derived from; None for a run of its own."""
    names = {bundle.name for bundle in bundles}
    by_folder = {bundle.name.rpartition("/")[2]: bundle.name for bundle in sorted(bundles, key=lambda b: b.name)}
    parents: dict[str, str | None] = {}
    for bundle in bundles:
        parent = bundle.manifest.derived_from if bundle.manifest is not None else None
        if parent:
            # A sibling is what `--into` makes; elsewhere it was moved.
            sibling = f"{bundle.name.rpartition('/')[0]}/{parent}".removeprefix("/")
            parent = sibling if sibling in names else by_folder.get(parent, parent)
        parents[bundle.name] = parent or None
    return parents


def one_per_eval(bundles: Iterable[BundleView], names: dict[str, str]) -> list[tuple[str, BundleView]]:
    """(eval, the bundle whose answers stand for it: its own, if it is there), in the order of `bundles`."""
    chosen: dict[str, BundleView] = {}
    for bundle in bundles:
        name = names[bundle.name]
        if name not in chosen or bundle.name == name:
            chosen[name] = bundle
    return list(chosen.items())


def answers_of(bundle: BundleView) -> dict[Cell, int]:
    """Cell to what stands for all its answers: equal where two runs hold the same ones, however that came about."""
    sums = {cell: bundle.eval.cell_sum(number) for number, cell in enumerate(bundle.keys.cells)}
    return {cell: total for cell, total in sums.items() if total}
