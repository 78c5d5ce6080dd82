"""Does the judge say the same twice? What the repeated verdicts of a sample add up to. Pure.

`judge --repeat-judge N --sample K` judges the same answers again and again into self_consistency.jsonl; the verdicts
proper stay out of it, and so do these figures of the scorecard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from touchstone.contracts.lines import Key, RepeatedVerdict


@dataclass(frozen=True, slots=True)
class Consistency:
    """How much the judge agrees with itself."""

    n: int
    """Answers with at least two scored repeats: those that the figures are about."""
    identical: int
    """Of these, the answers whose scored repeats all gave the same score and the same red flag."""
    mean_range: float | None
    """Mean over the n answers of highest minus lowest score, 0..4; None where n is 0."""
    verdicts: int
    """Scored repeats in all, also on answers with only one."""
    unscored: int
    """Repeats that gave no score. They count in none of the figures above."""
    too_few: int
    """Answers left out, because fewer than two of their repeats were scored."""
    judge_model: str | None
    """As in the last line that names one."""

    @property
    def share_identical(self) -> float | None:
        """0..1; None where there is nothing to compare."""
        return self.identical / self.n if self.n else None


def summary(lines: Iterable[RepeatedVerdict]) -> Consistency | None:
    """The figures over the lines of self_consistency.jsonl; None without any. A later line of a key and round wins."""
    winning: dict[Key, dict[int, RepeatedVerdict]] = {}
    judge = None
    for line in lines:
        winning.setdefault(line.key, {})[line.round] = line
        judge = line.judge_model or judge
    if not winning:
        return None
    scored = [
        [(line.score, line.red_flag) for line in rounds.values() if not line.unscored and line.score]
        for rounds in winning.values()
    ]
    compared = [verdicts for verdicts in scored if len(verdicts) >= 2]
    ranges = [max(score for score, _ in verdicts) - min(score for score, _ in verdicts) for verdicts in compared]
    verdicts = sum(map(len, scored))
    return Consistency(
        n=len(compared),
        identical=sum(len(set(verdicts)) == 1 for verdicts in compared),
        mean_range=sum(ranges) / len(ranges) if ranges else None,
        verdicts=verdicts,
        unscored=sum(map(len, winning.values())) - verdicts,
        too_few=len(scored) - len(compared),
        judge_model=judge,
    )
