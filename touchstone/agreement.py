"""How far two raters agree on the scale 1..5: every figure about a judge and its reference. Pure, without numpy.

A pair is (local, reference), two scores of the same thing. What is undefined is None, never NaN: too few values, a
constant rater, nothing to divide by. Sums are whole numbers or fractions until the last step, so figures do not depend
on the order of the pairs. The mean distance alone misleads (a judge that always says 5 may have the smallest), so it
never stands without `best_constant`, which says what a judge that looks at nothing would get.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Final, NamedTuple

from touchstone.statistics import quantile

SCALE: Final = (1, 2, 3, 4, 5)
OUTLIER: Final = 2
"""Points apart from which a pair is an outlier."""

MIN_PAIRS: Final = 10
"""Below it the single differences are all there is to say."""
INTERVAL_PAIRS: Final = 30
"""From here on an interval is given; below it figures are indicative."""
CLAIM_PAIRS: Final = 50
"""From here on one judge may be called better than another one."""
INTERVAL_MODELS: Final = 8
"""Fewer clusters have too few distinct resamples: 2, 3 and 4 models have 3, 10 and 35."""
RESAMPLES: Final = 2000
_Z: Final = 1.959963984540054
"""The 97.5th percentile of the standard normal distribution."""

Pairs = Sequence[tuple[int, int]]
"""(local, reference), each 1..5."""


class Interval(NamedTuple):
    """Where a figure lies with 95 % confidence."""

    low: float
    high: float


def _ratio(top: int, bottom: int) -> float | None:
    return top / bottom if bottom else None


# -- distances


def mean_abs_delta(pairs: Pairs) -> float | None:
    """Mean |local - reference|, 0..4."""
    return _ratio(sum(abs(local - reference) for local, reference in pairs), len(pairs))


def bias(pairs: Pairs) -> float | None:
    """Mean local - reference, -4..4: above 0 the local judge is milder."""
    return _ratio(sum(local - reference for local, reference in pairs), len(pairs))


def share_within(pairs: Pairs, points: int) -> float | None:
    """Share of pairs at most so many points apart, 0..1; 0 points: exactly alike."""
    return _ratio(sum(abs(local - reference) <= points for local, reference in pairs), len(pairs))


def outliers(pairs: Pairs) -> int:
    """How many pairs are OUTLIER points apart or more."""
    return sum(abs(local - reference) >= OUTLIER for local, reference in pairs)


class Constant(NamedTuple):
    """The best judge among those that give the same score to everything."""

    score: int
    """The lowest one, where several are equally good."""
    mean_abs_delta: float


def best_constant(pairs: Pairs) -> Constant | None:
    """Which constant comes closest to the reference, and how close; None without pairs."""
    if not pairs:
        return None
    sums = {score: sum(abs(score - reference) for _, reference in pairs) for score in SCALE}
    score = min(SCALE, key=lambda each: (sums[each], each))
    return Constant(score, sums[score] / len(pairs))


def skill(pairs: Pairs) -> float | None:
    """1 - mean distance / mean distance of the best constant, at most 1; 0 and less: no better than a constant.

    None where a constant is perfect, which is where the reference gives one score to everything.
    """
    constant = best_constant(pairs)
    if constant is None:
        return None
    distance = sum(abs(local - reference) for local, reference in pairs)
    least = sum(abs(constant.score - reference) for _, reference in pairs)
    return float(1 - Fraction(distance, least)) if least else None


# -- agreement beyond chance


class _Sums(NamedTuple):
    """All that the quadratic kappa needs to know of some pairs."""

    n: int
    local: int
    reference: int
    squares: int
    """Of both sides."""
    apart: int
    """Of the differences."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> _Sums:
        n = local = reference = squares = apart = 0
        for one, other in pairs:
            n += 1
            local += one
            reference += other
            squares += one * one + other * other
            apart += (one - other) ** 2
        return cls(n, local, reference, squares, apart)

    @property
    def kappa(self) -> float | None:
        # Expected disagreement times n; with quadratic weights it needs sums only, no 5 x 5 table.
        expected = self.n * self.squares - 2 * self.local * self.reference
        return float(1 - Fraction(self.n * self.apart, expected)) if expected else None


def quadratic_kappa(pairs: Pairs) -> float | None:
    """Cohen's kappa with weights (i - j) squared, -1..1; None where both sides are the same constant."""
    return _Sums.of(pairs).kappa


def quadratic_kappa_interval(clusters: Mapping[str, Pairs]) -> Interval | None:
    """Percentile bootstrap of the kappa over clusters: model name to its pairs, not independent of each other.

    None under INTERVAL_MODELS clusters or INTERVAL_PAIRS pairs. The same data give the same interval.
    """
    sums = [_Sums.of(pairs) for _, pairs in sorted(clusters.items()) if pairs]
    if sum(each.n for each in sums) < INTERVAL_PAIRS:
        return None

    def kappa(drawn: Sequence[int]) -> float | None:
        return _Sums(*map(sum, zip(*(sums[index] for index in drawn), strict=True))).kappa

    return _bootstrap(len(sums), _seed({name: sorted(pairs) for name, pairs in clusters.items()}), kappa)


def mean_interval(clusters: Mapping[str, Sequence[int]]) -> Interval | None:
    """The same for the mean of whole numbers: of signed differences, or of one judge's distances minus another's."""
    sums = [(len(values), sum(values)) for _, values in sorted(clusters.items()) if values]
    if sum(count for count, _ in sums) < INTERVAL_PAIRS:
        return None

    def mean(drawn: Sequence[int]) -> float | None:
        return _ratio(sum(sums[index][1] for index in drawn), sum(sums[index][0] for index in drawn))

    return _bootstrap(len(sums), _seed({name: sorted(values) for name, values in clusters.items()}), mean)


def _seed(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def _bootstrap(clusters: int, seed: bytes, figure: Callable[[Sequence[int]], float | None]) -> Interval | None:
    """95 % percentile interval of `figure` over resampled clusters; resamples without a figure are left out."""
    if clusters < INTERVAL_MODELS:
        return None
    # A stream of bytes from the data, so that nobody can draw until the interval pleases.
    stream = hashlib.shake_256(seed).digest(RESAMPLES * clusters * 8)
    values = []
    for start in range(0, len(stream), clusters * 8):
        words = (int.from_bytes(stream[at : at + 8], "big") for at in range(start, start + clusters * 8, 8))
        value = figure([word * clusters >> 64 for word in words])
        if value is not None:
            values.append(value)
    low, high = quantile(values, 0.025), quantile(values, 0.975)
    return None if low is None or high is None else Interval(low, high)


def ordinal_alpha(units: Iterable[Sequence[int]]) -> float | None:
    """Krippendorff's alpha for ordinal values, at most 1; a unit holds the values that any number of raters gave it.

    None where nothing was rated twice, or where all values are the same.
    """
    pairable = [Counter(unit) for unit in units if len(unit) > 1]
    totals: Counter[int] = Counter()
    for unit in pairable:
        totals.update(unit)
    exact: dict[tuple[int, int], Fraction] = {}
    for unit in pairable:
        others = sum(unit.values()) - 1
        for low, high in combinations(sorted(unit), 2):
            exact[low, high] = exact.get((low, high), Fraction(0)) + Fraction(unit[low] * unit[high], others)
    values = sorted(totals)

    def distance(low: int, high: int) -> Fraction:
        between = sum(totals[value] for value in values if low <= value <= high)
        return (between - Fraction(totals[low] + totals[high], 2)) ** 2

    expected = sum((totals[a] * totals[b] * distance(a, b) for a, b in combinations(values, 2)), Fraction(0))
    if not expected:
        return None
    observed = sum((count * distance(low, high) for (low, high), count in exact.items()), Fraction(0))
    return float(1 - (totals.total() - 1) * observed / expected)


# -- order


def spearman(pairs: Pairs) -> float | None:
    """Rank correlation, -1..1, equal values sharing their mean rank; None for a constant side or fewer than two."""
    one, other = _ranks([local for local, _ in pairs]), _ranks([reference for _, reference in pairs])
    # Twice the ranks, so that all sums are whole numbers; their mean is n + 1.
    mean = len(pairs) + 1
    both = sum((a - mean) * (b - mean) for a, b in zip(one, other, strict=True))
    spread = sum((a - mean) ** 2 for a in one) * sum((b - mean) ** 2 for b in other)
    return both / math.sqrt(spread) if spread else None


def _ranks(values: Sequence[int]) -> list[int]:
    """Twice the rank of each value (from 2), equal ones sharing their mean."""
    counts = Counter(values)
    rank, below = {}, 0
    for value in sorted(counts):
        rank[value] = 2 * below + counts[value] + 1
        below += counts[value]
    return [rank[value] for value in values]


def kendall_tau_b(pairs: Pairs) -> float | None:
    """Concordant minus discordant pairs of pairs, -1..1, corrected for ties; None for a constant side."""
    table = Counter(pairs)
    balance = 0
    for ((local, reference), count), ((local2, reference2), count2) in combinations(table.items(), 2):
        step = (local - local2) * (reference - reference2)
        balance += count * count2 * ((step > 0) - (step < 0))
    untied = _untied(Counter(local for local, _ in pairs)) * _untied(Counter(reference for _, reference in pairs))
    return balance / math.sqrt(untied) if untied else None


def _untied(counts: Counter[int]) -> int:
    total = counts.total()
    return (total * total - sum(count * count for count in counts.values())) // 2


# -- shares


def wilson(k: int, n: int) -> Interval | None:
    """95 % interval of a share of k in n, within 0..1; None for n = 0."""
    if n == 0:
        return None
    share, square = k / n, _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    # At the ends rounding would leave a hair outside, or a hair of doubt where there is none.
    return Interval(0.0 if k == 0 else max(0.0, middle - half), 1.0 if k == n else min(1.0, middle + half))


@dataclass(frozen=True, slots=True)
class Share:
    """k of n."""

    k: int
    n: int

    @property
    def rate(self) -> float | None:
        """0..1; None for n = 0."""
        return _ratio(self.k, self.n)

    @property
    def interval(self) -> Interval | None:
        return wilson(self.k, self.n)


@dataclass(frozen=True, slots=True)
class KnockOuts:
    """Which cells either side knocked out; cells of which one side does not know are in none of the four."""

    hits: int = 0
    missed: int = 0
    """Knocked out by the reference alone."""
    false_alarms: int = 0
    """Knocked out by the local judge alone."""
    clear: int = 0
    unknown: int = 0
    """Cells that one side or both left open."""

    @property
    def compared(self) -> int:
        return self.hits + self.missed + self.false_alarms + self.clear

    @property
    def concordance(self) -> float | None:
        """Share of the compared cells on which both say the same, 0..1. Alone it misleads: most cells are clear."""
        return _ratio(self.hits + self.clear, self.compared)

    @property
    def recall(self) -> Share:
        """Of the reference's knock-outs, those that the local judge found."""
        return Share(self.hits, self.hits + self.missed)

    @property
    def false_alarm(self) -> Share:
        """Of the cells that the reference cleared, those that the local judge knocked out."""
        return Share(self.false_alarms, self.false_alarms + self.clear)


def knock_outs(cells: Iterable[tuple[bool | None, bool | None]]) -> KnockOuts:
    """From (local, reference) of each cell: knocked out, not, unknown."""
    counts = Counter(cells)
    known = {(a, b): counts[a, b] for a in (True, False) for b in (True, False)}
    return KnockOuts(
        hits=known[True, True],
        missed=known[False, True],
        false_alarms=known[True, False],
        clear=known[False, False],
        unknown=counts.total() - sum(known.values()),
    )
