"""Which judge to use: what a group of comparable judges adds up to, and what two judges of the same answers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from touchstone.agreement import CLAIM_PAIRS, INTERVAL_MODELS, INTERVAL_PAIRS, MIN_PAIRS
from touchstone.i18n import UNKNOWN, Words
from touchstone.judge_compare import JudgeQualityRow, PackGroup, trusted
from touchstone.judge_pairs import Comparison, compare
from touchstone.judge_words import doubt, real
from touchstone.pages.lineage import answers_of
from touchstone.quality_md import read_pairs
from touchstone.report_md import cell_text
from touchstone.view import BundleView

FACED_MOST: Final = 12
"""Comparisons of one group; the best judges come first, so those that are left out matter least."""


@dataclass(frozen=True, slots=True)
class Faced:
    """Two judges of the same answers."""

    first: JudgeQualityRow
    second: JudgeQualityRow
    comparison: Comparison

    @property
    def closer(self) -> JudgeQualityRow | None:
        """The one whose lead is no chance."""
        return {"first": self.first, "second": self.second}.get(self.comparison.outcome)


def by_merit(rows: Sequence[JudgeQualityRow]) -> list[JudgeQualityRow]:
    """Trusted judges first, by skill; then the others by their distance."""
    return sorted(
        rows,
        key=lambda row: (
            not trusted(row),
            -(row.skill or 0.0) if trusted(row) else 0.0,
            5.0 if row.mean_abs_delta is None else row.mean_abs_delta,
            row.key,
        ),
    )


def faced(group: PackGroup, bundles: Mapping[str, BundleView]) -> list[Faced]:
    """The comparisons that the group allows: of judges whose runs hold the same answers, at least in some cells."""
    if group.pack is None or len(group.rows) < 2:
        return []
    rows = [row for row in by_merit(group.rows) if row.bundle in bundles]
    answers = {row.bundle: answers_of(bundles[row.bundle]) for row in rows}
    scores = {row.bundle: read_pairs(bundles[row.bundle].quality_md or "") for row in rows}
    found = []
    for first, second in islice(combinations(rows, 2), FACED_MOST):
        one, other = answers[first.bundle], answers[second.bundle]
        same = {(cell_text(cell.model), cell_text(cell.variant)) for cell in one if one[cell] == other.get(cell)}
        comparison = compare(scores[first.bundle], scores[second.bundle], same)
        if comparison.pairs:
            found.append(Faced(first, second, comparison))
    return found


def _name(row: JudgeQualityRow, rows: Sequence[JudgeQualityRow]) -> str:
    """The judge, with its run where another row has the same one."""
    alike = sum(other.judge_model == row.judge_model for other in rows) > 1
    return f"{row.judge_model or UNKNOWN} ({row.bundle})" if alike else row.judge_model or UNKNOWN


# -- two judges


def faced_words(each: Faced, rows: Sequence[JudgeQualityRow], words: Words) -> str:
    """Better, not separable, or too few: as a sentence with its evidence."""
    comparison = each.comparison
    first, second = _name(each.first, rows), _name(each.second, rows)
    text = _outcome_words(each, first, second, words)
    if comparison.moved:
        text += " " + words.n_(
            "The reference itself scored %(n)s pair differently in the two files.",
            "The reference itself scored %(n)s pairs differently in the two files.",
            comparison.moved,
        )
    return text


def _outcome_words(each: Faced, first: str, second: str, words: Words) -> str:
    comparison, closer = each.comparison, each.closer
    points = words.number(abs(comparison.difference or 0.0), 2)
    if comparison.interval is None or comparison.outcome == "too few":
        return words._(
            "%(first)s and %(second)s: too few. They share %(pairs)s pairs of %(models)s models; to call one better it"
            " takes %(least)s pairs of %(least_models)s models.",
            first=first,
            second=second,
            pairs=words.number(comparison.pairs),
            models=words.number(comparison.models),
            least=CLAIM_PAIRS,
            least_models=INTERVAL_MODELS,
        )
    low, high = sorted(map(abs, comparison.interval)) if closer else comparison.interval
    evidence = words._(
        "95%% interval %(low)s to %(high)s, %(pairs)s pairs",
        low=real(low, words),
        high=real(high, words),
        pairs=words.number(comparison.pairs),
    )
    if closer is None:
        return words._(
            "%(first)s and %(second)s are not separable: the %(points)s points between them may be chance"
            " (%(evidence)s).",
            first=first,
            second=second,
            points=points,
            evidence=evidence,
        )
    names = {"better": first, "other": second} if closer is each.first else {"better": second, "other": first}
    if not trusted(closer):
        return words._(
            "%(better)s is closer to the reference than %(other)s by %(points)s points (%(evidence)s), but cannot be"
            " called better: %(doubt)s.",
            points=points,
            evidence=evidence,
            doubt=doubt(closer, words) or words._("too little is known about it"),
            **names,
        )
    return words._(
        "%(better)s is better than %(other)s: %(points)s points closer to the reference on average (%(evidence)s).",
        points=points,
        evidence=evidence,
        **names,
    )


# -- the group


def advice(group: PackGroup, comparisons: Sequence[Faced], words: Words) -> str:
    """Which judge to use and why, or that the data cannot say."""
    rows = group.rows
    if group.pack is None:
        return words._("Without a pack nothing here can be compared.")
    good = [row for row in by_merit(rows) if trusted(row)]
    if not good:
        return _nobody(rows, words)
    best = good[0]
    name = _name(best, rows)
    ahead = words._(
        "better than always answering %(score)s (%(figures)s)",
        score=words.number(best.constant_score),
        figures=_figures(best, words),
    )
    if len(rows) == 1:
        return words._("%(judge)s is %(why)s; no other judge was checked in this way.", judge=name, why=ahead)
    if len(good) == 1:
        return words._("Use %(judge)s: it alone is %(why)s.", judge=name, why=ahead)
    beaten = {
        id(each.second if each.closer is each.first else each.first) for each in comparisons if each.closer is best
    }
    if all(id(row) in beaten for row in good[1:]):
        return words._("Use %(judge)s: it is better than every other one here, and %(why)s.", judge=name, why=ahead)
    second = _name(good[1], rows)
    return words._(
        "%(judge)s is ahead, %(why)s, but the data cannot say that it is better than %(second)s: %(reason)s.",
        judge=name,
        second=second,
        why=ahead,
        reason=_why_not(best, good[1], comparisons, words),
    )


def _nobody(rows: Sequence[JudgeQualityRow], words: Words) -> str:
    if all(row.pairs is None and row.skill is None for row in rows):
        return words._("These files are too old to say whether a judge can be trusted; ingest the responses again.")
    if all(row.pairs is not None and row.pairs < MIN_PAIRS for row in rows):
        return words._(
            "The data cannot say which judge to use: no judge shares %(n)s pairs with the reference.", n=MIN_PAIRS
        )
    return words.n_(
        "This judge cannot be recommended: it is no better than giving the same score to everything.",
        "None of these %(n)s judges can be recommended: none is better than giving the same score to everything.",
        len({row.judge_model for row in rows}),
    )


def _figures(row: JudgeQualityRow, words: Words) -> str:
    text = words._("skill %(skill)s over %(n)s pairs", skill=real(row.skill, words), n=words.number(row.pairs))
    return text + ", " + words._("indicative") if row.pairs is not None and row.pairs < INTERVAL_PAIRS else text


def _why_not(best: JudgeQualityRow, other: JudgeQualityRow, comparisons: Sequence[Faced], words: Words) -> str:
    met = next(
        (each for each in comparisons if best in (each.first, each.second) and other in (each.first, each.second)), None
    )
    if met is None:
        return words._("the two judged different answers")
    return words._("not separable") if met.comparison.outcome != "too few" else words._("too few pairs or models")
