"""A bundle's local judging beside what a reference says about it: pairs, knock-outs, rubric rates. Pure.

Cells are those that have answers, in the order of bundle.yaml, so that nothing that the local judge did decides what
the reference is asked. A pair is one dimension of one cell that both sides scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from touchstone.agreement import OUTLIER, KnockOuts, Share, knock_outs, mean_abs_delta
from touchstone.contracts.lines import Cell
from touchstone.contracts.pack import Dimension, Pack
from touchstone.contracts.response import DimensionCritique, MetaCell, MetaResponse, RubricCheck
from touchstone.errors import brief
from touchstone.scorecard import MasterRow, Weighted, weighted_total
from touchstone.view import BundleView

CHECKS: Final[tuple[RubricCheck, ...]] = get_args(RubricCheck)
TOP: Final = 5
"""Nothing is left to improve at this score, so nobody has to name an improvement."""


def answered_cells(view: BundleView) -> list[Cell]:
    """The cells that have answers: in the order of bundle.yaml, then by name, whatever was judged of them."""
    return [facts.cell for facts in view.cells if facts.expected]


@dataclass(frozen=True, slots=True)
class DimensionReview:
    """One dimension of one cell, from both sides."""

    dimension: Dimension
    local: int | None
    reference: int | None
    critique: DimensionCritique | None
    """What the reference thinks of the local rationale."""

    @property
    def delta(self) -> int | None:
        """Local - reference; None unless both scored."""
        return None if self.local is None or self.reference is None else self.local - self.reference

    @property
    def outlier(self) -> bool:
        return self.delta is not None and abs(self.delta) >= OUTLIER

    def check(self, name: RubricCheck) -> bool | None:
        """Whether the local rationale passes; None: not said, no local score to justify, or nothing to improve."""
        if self.critique is None or self.local is None or (name == "names_improvement" and self.local == TOP):
            return None
        return self.critique.checks[name]


@dataclass(frozen=True, slots=True)
class CellReview:
    """One cell, from both sides."""

    row: MasterRow
    given: MetaCell | None
    """What the reference said; None: nothing."""
    dimensions: tuple[DimensionReview, ...]

    @property
    def cell(self) -> Cell:
        return self.row.cell

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [
            (each.local, each.reference)
            for each in self.dimensions
            if each.local is not None and each.reference is not None
        ]

    @property
    def mean_abs_delta(self) -> float | None:
        return mean_abs_delta(self.pairs)

    def quality(self, *, local: bool) -> Weighted:
        """Quality of one side over the dimensions that both scored: the same weights, so the two can be compared."""
        both = [each for each in self.dimensions if each.delta is not None]
        scores = {each.dimension.id: each.local if local else each.reference for each in both}
        return weighted_total(scores, [each.dimension for each in both])

    @property
    def quality_delta(self) -> float | None:
        """Local - reference in percentage points, -80..80."""
        local, reference = self.quality(local=True).exact_pct, self.quality(local=False).exact_pct
        return None if local is None or reference is None else float(local - reference)

    @property
    def ko_local(self) -> bool | None:
        passed = self.row.safety.passed
        return None if passed is None else not passed

    @property
    def ko_reference(self) -> bool | None:
        return None if self.given is None or self.given.fresh_scores is None else self.given.fresh_scores.ko_fired


@dataclass(frozen=True, slots=True)
class MetaEvaluation:
    """Everything about one local judge that the reference's response says."""

    pack: Pack
    cells: tuple[CellReview, ...]
    reference: str | None
    recommendations: tuple[str, ...]
    remarks: tuple[str, ...]
    """What of the response was ignored or is odd, for the terminal."""

    @property
    def missing(self) -> list[Cell]:
        """Cells about which the reference said nothing."""
        return [each.cell for each in self.cells if each.given is None]

    @property
    def pairs_expected(self) -> int:
        return len(self.cells) * len(self.pack.dimensions)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [pair for each in self.cells for pair in each.pairs]

    @property
    def by_model(self) -> dict[str, list[tuple[int, int]]]:
        """Model to its pairs, over all variants."""
        found: dict[str, list[tuple[int, int]]] = {}
        for each in self.cells:
            found.setdefault(each.cell.model, []).extend(each.pairs)
        return found

    @property
    def reviews(self) -> Iterator[tuple[CellReview, DimensionReview]]:
        return ((cell, each) for cell in self.cells for each in cell.dimensions)

    def rate(self, check: RubricCheck) -> Share:
        """How many of the rationales that the reference looked at pass a check."""
        said = [passed for _, each in self.reviews if (passed := each.check(check)) is not None]
        return Share(sum(said), len(said))

    @property
    def knock_outs(self) -> KnockOuts:
        """Over the cells that the reference said something about."""
        return knock_outs((each.ko_local, each.ko_reference) for each in self.cells if each.given is not None)

    @property
    def quality_pct_delta(self) -> float | None:
        """Mean over cells of the distance between both sides' quality, in percentage points."""
        distances = [abs(delta) for each in self.cells if (delta := each.quality_delta) is not None]
        return sum(distances) / len(distances) if distances else None


def evaluate(view: BundleView, pack: Pack, response: MetaResponse) -> MetaEvaluation:
    """The local judging in `view` beside `response`. What the response says about other things is in `remarks`."""
    remarks: list[str] = []
    given = _given(response, answered_cells(view), pack, remarks)
    rows = {row.cell: row for row in view.rows}
    cells = tuple(_review(rows[cell], given.get(cell), pack) for cell in answered_cells(view))
    advice = tuple(text for text in response.recommendations or () if text and text.strip())
    return MetaEvaluation(pack, cells, (response.reference or "").strip() or None, advice, tuple(remarks))


def _given(response: MetaResponse, cells: Sequence[Cell], pack: Pack, remarks: list[str]) -> dict[Cell, MetaCell]:
    """What counts for each cell: the last entry that anything is filled in."""
    found: dict[Cell, MetaCell] = {}
    for each in response.cells:
        cell = each.cell(cells)
        if cell not in cells:
            remarks.append(f"{_name(cell)} is no cell of this run and is ignored")
            continue
        remarks += _odd(each, _name(cell), pack)
        if not each.filled:
            continue
        if cell in found:
            remarks.append(f"{_name(cell)} is given twice; the last one counts")
        found[cell] = each
    return found


def _name(cell: Cell) -> str:
    return f"{brief(cell.model)!r} ({brief(cell.variant)})"


def _odd(given: MetaCell, cell: str, pack: Pack) -> Iterator[str]:
    known = {dimension.id for dimension in pack.dimensions}
    fresh = given.fresh_scores
    for part, names in (
        ("fresh_scores", () if fresh is None else fresh.dimensions),
        ("critique", () if given.critique is None else given.critique.dimensions),
    ):
        for name in names:
            if name not in known:
                yield f"{cell}: {part}: {brief(name)!r} is no dimension of this pack and is ignored"
    if fresh is not None and fresh.ko_fired is False:
        for dimension in pack.dimensions:
            score = fresh.dimensions.get(dimension.id)
            if score is not None and dimension.ko_floor is not None and score < dimension.ko_floor:
                below = f"{dimension.id} {score} is below its floor {dimension.ko_floor}"
                yield f"{cell}: {below}, but ko_fired is false; ko_fired counts as it is written"


def _review(row: MasterRow, given: MetaCell | None, pack: Pack) -> CellReview:
    local = {} if row.report is None else row.report.dim_scores
    fresh = {} if given is None or given.fresh_scores is None else given.fresh_scores.dimensions
    critique = {} if given is None or given.critique is None else given.critique.dimensions
    return CellReview(
        row,
        given,
        tuple(
            DimensionReview(each, local.get(each.id), fresh.get(each.id), critique.get(each.id))
            for each in pack.dimensions
        ),
    )
