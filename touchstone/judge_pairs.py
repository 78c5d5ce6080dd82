"""Two judges of the same answers: is one of them better? Pure.

The pairs come from the tables in both judge_quality.md (`quality_md.read_pairs`), of those cells only whose answers are
the same. A difference counts where the bootstrap over models leaves no doubt about its sign.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from touchstone.agreement import CLAIM_PAIRS, INTERVAL_MODELS, Interval, mean_interval
from touchstone.quality_md import PairKey

Scores = Mapping[PairKey, tuple[int, int]]
"""Pair to (local, reference)."""
Outcome = Literal["first", "second", "not separable", "too few"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two judges' distances from the reference say about the two."""

    pairs: int
    """Scored by both judges and the reference."""
    models: int
    difference: float | None
    """Mean distance of the first judge minus that of the second; below 0 the first is closer. None without pairs."""
    interval: Interval | None
    """95 %; None with fewer than INTERVAL_MODELS models or INTERVAL_PAIRS pairs."""
    moved: int
    """Pairs that the reference itself scored differently in the two files."""

    @property
    def outcome(self) -> Outcome:
        """Which one is closer to the reference, if the data can say so."""
        if self.pairs < CLAIM_PAIRS or self.models < INTERVAL_MODELS or self.interval is None:
            return "too few"
        if self.interval.high < 0:
            return "first"
        return "second" if self.interval.low > 0 else "not separable"


def compare(first: Scores, second: Scores, cells: Collection[tuple[str, str]]) -> Comparison:
    """The comparison over the pairs of these cells (model and variant, as in the keys) that both files hold."""
    shared = [key for key in first if key in second and key[:2] in cells]
    differences: dict[str, list[int]] = {}
    for key in shared:
        (one, reference), (other, reference2) = first[key], second[key]
        differences.setdefault(key.model, []).append(abs(one - reference) - abs(other - reference2))
    total = sum(map(sum, differences.values()))
    return Comparison(
        pairs=len(shared),
        models=len(differences),
        difference=total / len(shared) if shared else None,
        interval=mean_interval(differences),
        moved=sum(first[key][1] != second[key][1] for key in shared),
    )
