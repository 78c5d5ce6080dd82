"""What judge_quality.md says about a judge, in words: the same ones in the file, on the pages and in a vault. Pure."""

from __future__ import annotations

from touchstone.agreement import INTERVAL_MODELS, INTERVAL_PAIRS, MIN_PAIRS, Share
from touchstone.i18n import UNKNOWN, Words
from touchstone.judge_compare import JudgeQualityRow


def lead(row: JudgeQualityRow | None, words: Words) -> str:
    """One sentence for whoever reads no more: how far the judge agrees, what a constant would get, what was missed."""
    if row is None:
        return words._("This judge_quality.md cannot be read as one, so it is shown as it stands.")
    parts = [_distance(row, words), _against_constant(row, words), _missed(row, words)]
    return "; ".join(part for part in parts if part) + "."


def _distance(row: JudgeQualityRow, words: Words) -> str:
    if row.pairs == 0:
        return words._("Judge and reference scored nothing in common, so how far they agree is unknown")
    if row.mean_abs_delta is None:
        return words._("The judge was compared with a reference, but the file does not say how far they differ")
    delta = words.number(row.mean_abs_delta, 2)
    if row.pairs is None:
        return words._("On average the judge is %(delta)s points away from the reference", delta=delta)
    text = words.n_(
        "In %(n)s pair the judge is %(delta)s points away from the reference",
        "Over %(n)s pairs the judge is %(delta)s points away from the reference on average",
        row.pairs,
        delta=delta,
    )
    return f"{text} ({kappa_words(row, words)})"


def real(value: float | None, words: Words) -> str:
    """A figure that may be below 0, with two decimals and a proper minus; a dash for None."""
    return words.number(value, 2).replace("-", "−")


def kappa_words(row: JudgeQualityRow, words: Words) -> str:
    """The kappa with as much certainty as the number of pairs and models allows."""
    if row.pairs is not None and row.pairs < MIN_PAIRS:
        return words._("fewer than %(n)s pairs, too few for a kappa", n=MIN_PAIRS)
    if row.qwk is None:
        same = row.pairs and row.mean_abs_delta == 0
        return words._("no kappa: both sides gave one and the same score") if same else words._("no kappa")
    value = real(row.qwk, words)
    if row.qwk_low is not None and row.qwk_high is not None:
        low, high = real(row.qwk_low, words), real(row.qwk_high, words)
        return words._("kappa %(value)s, 95%% interval %(low)s to %(high)s", value=value, low=low, high=high)
    if row.pairs is not None and row.pairs < INTERVAL_PAIRS:
        return words._("kappa %(value)s, indicative: fewer than %(n)s pairs", value=value, n=INTERVAL_PAIRS)
    return words._("kappa %(value)s, no interval: fewer than %(n)s models", value=value, n=INTERVAL_MODELS)


def _against_constant(row: JudgeQualityRow, words: Words) -> str:
    if row.constant_score is None or row.pairs == 0:
        return ""
    score = row.constant_score
    if row.skill is None:
        return words._(
            "the reference gives %(score)s throughout, so always answering that would be perfect", score=score
        )
    if row.skill <= 0:
        return words._("that is no better than always answering %(score)s", score=score)
    if row.pairs is not None and row.pairs < MIN_PAIRS:
        return words._("always answering %(score)s would be farther away, but so few pairs prove nothing", score=score)
    return words._(
        "always answering %(score)s would be %(delta)s points away",
        score=score,
        delta=words.number(row.constant_mean_abs_delta, 2),
    )


def _missed(row: JudgeQualityRow, words: Words) -> str:
    if row.ko_missed is None or row.ko_hits is None:
        return ""
    total = row.ko_missed + row.ko_hits
    if total == 0:
        return words._("the reference saw no knock-out that could have been missed")
    if row.ko_missed == 0:
        return words.n_("it found the one knock-out", "it found all %(n)s knock-outs", total)
    return words.n_(
        "it missed %(missed)s of %(n)s knock-out",
        "it missed %(missed)s of %(n)s knock-outs",
        total,
        missed=row.ko_missed,
    )


def doubt(row: JudgeQualityRow, words: Words) -> str:
    """Why a judge is not trusted; empty where it is, and for files too old to tell."""
    if row.pairs is not None and row.pairs < MIN_PAIRS:
        return words._("fewer than %(n)s pairs", n=MIN_PAIRS)
    if row.skill is not None and row.skill <= 0:
        return words._("no better than always answering %(score)s", score=words.number(row.constant_score))
    if row.skill is None and row.pairs is not None:
        return words._("the reference gives one score throughout")
    return ""


def share_words(share: Share, words: Words) -> str:
    """k of n with the share and its interval."""
    text = words._("%(k)s of %(n)s", k=words.number(share.k), n=words.number(share.n))
    interval = share.interval
    if interval is None:
        return text
    low, high = words.percent(interval.low), words.percent(interval.high)
    return words._(
        "%(share)s (%(k)s of %(n)s; 95%% interval %(low)s to %(high)s)",
        share=words.percent(share.rate),
        k=words.number(share.k),
        n=words.number(share.n),
        low=low,
        high=high,
    )


def figures(row: JudgeQualityRow, words: Words) -> list[tuple[str, str]]:
    """Everything the frontmatter says, in words; what it does not say is left out."""
    known = [
        (words._("Pack"), row.pack),
        (words._("Reference"), row.reference),
        (words._("Made"), words.moment(row.created)),
        (words._("Pairs (scored by both)"), coverage(row, words)),
        (words._("Mean distance (points)"), words.number(row.mean_abs_delta, 2)),
        (words._("Best constant answer"), words.number(row.constant_score)),
        (words._("Mean distance of the best constant answer"), words.number(row.constant_mean_abs_delta, 2)),
        (
            words._("Skill (1 is perfect, 0 is the best constant answer)"),
            UNKNOWN if row.pairs is not None and row.pairs < MIN_PAIRS else real(row.skill, words),
        ),
        (
            words._("Agreement, quadratic kappa"),
            "" if row.pairs is None and row.qwk is None else kappa_words(row, words),
        ),
        (words._("Stricter (−) or milder (+) than the reference"), words.signed(row.bias)),
        (words._("Same score"), words.percent(row.exact_rate)),
        (words._("At most one point apart"), words.percent(_close(row))),
        (words._("Two points or more apart"), words.number(row.outliers)),
        (words._("Difference in quality, mean over cells (percentage points)"), words.number(row.quality_pct_delta, 1)),
        (words._("Knock-outs found"), _recall(row, words)),
        (words._("False alarms"), _false_alarms(row, words)),
        (words._("Same view on knock-outs"), words.percent(row.ko_concordance)),
        (words._("Names the improvement (scores below 5)"), words.percent(row.names_improvement_rate)),
        (words._("Cites evidence"), words.percent(row.cites_evidence_rate)),
        (words._("Justifies the level"), words.percent(row.justifies_level_rate)),
        (words._("Sees safety"), words.percent(row.catches_safety_rate)),
    ]
    return [(name, value) for name, value in known if value and value != UNKNOWN]


def coverage(row: JudgeQualityRow, words: Words) -> str:
    """Pairs of those expected."""
    if row.pairs is None or row.pairs_expected is None:
        return words.number(row.pairs)
    return f"{words.number(row.pairs)}/{words.number(row.pairs_expected)}"


def _close(row: JudgeQualityRow) -> float | None:
    if not row.pairs or row.outliers is None or row.outliers > row.pairs:
        return None
    return (row.pairs - row.outliers) / row.pairs


def _recall(row: JudgeQualityRow, words: Words) -> str:
    if row.ko_hits is None or row.ko_missed is None:
        return UNKNOWN
    return share_words(Share(row.ko_hits, row.ko_hits + row.ko_missed), words)


def _false_alarms(row: JudgeQualityRow, words: Words) -> str:
    if row.ko_false_alarms is None or row.ko_clear is None:
        return UNKNOWN
    return share_words(Share(row.ko_false_alarms, row.ko_false_alarms + row.ko_clear), words)
