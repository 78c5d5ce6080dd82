"""judge_quality.md as a page: how far the judge agrees with a strong reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.i18n import UNKNOWN, Words
from touchstone.judge_compare import JudgeQualityRow, quality_row, split_frontmatter
from touchstone.pages.common import Link, frame, is_stale
from touchstone.site import Page, Site
from touchstone.view import BundleView

SHOWN: Final = 100_000
"""Characters of the file that the page shows; the download has them all."""


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        if bundle.quality_md is not None:
            path = f"{site.home(bundle)}judge-quality/index.html"
            context = partial(_context, site, bundle, bundle.quality_md)
            yield Page(path, "quality.html", context, inputs=site.inputs(bundle))


def _context(site: Site, bundle: BundleView, text: str, words: Words) -> Mapping[str, Any]:
    row = quality_row(bundle)
    body = text if row is None else split_frontmatter(text)[1]
    return {
        **frame(site, bundle, words, "quality"),
        "row": row,
        "lead": lead(row, words),
        "facts": [] if row is None else figures(row, words),
        "body": body[:SHOWN],
        "cut": len(body) > SHOWN,
        "stale": is_stale(bundle, text),
        "compare": Link("compare-judges/index.html"),
        "download": site.home(bundle) + "judge_quality.md",
    }


def lead(row: JudgeQualityRow | None, words: Words) -> str:
    """How far the judge agrees, whether it beats the best constant, and what it missed."""
    if row is None:
        return words._("This judge_quality.md cannot be read as one, so it is shown as it stands.")
    parts = [_distance(row, words)]
    if row.skill is not None and row.constant_score is not None:
        parts.append(
            words._("Always answering %(score)s would do worse.", score=row.constant_score)
            if row.skill > 0
            else words._("That is no better than always answering %(score)s.", score=row.constant_score)
        )
    if row.ko_missed:
        parts.append(words.n_("It missed %(n)s knock-out.", "It missed %(n)s knock-outs.", row.ko_missed))
    elif row.ko_missed == 0 and row.ko_hits:
        parts.append(words._("It missed no knock-out."))
    return " ".join(parts)


def _distance(row: JudgeQualityRow, words: Words) -> str:
    if row.mean_abs_delta is None:
        return words._("The judge was compared with a reference, but the file does not say how far they differ.")
    delta = words.number(row.mean_abs_delta, 2)
    if row.pairs is None:
        return words._("On average the judge is %(delta)s points away from the reference.", delta=delta)
    return words.n_(
        "In %(n)s pair the judge is %(delta)s points away from the reference.",
        "Over %(n)s pairs the judge is %(delta)s points away from the reference on average.",
        row.pairs,
        delta=delta,
    )


def figures(row: JudgeQualityRow, words: Words) -> list[tuple[str, str]]:
    """Everything the frontmatter says, in words; what it does not say is left out."""
    interval = (
        words._("%(low)s to %(high)s", low=words.number(row.qwk_low, 2), high=words.number(row.qwk_high, 2))
        if row.qwk_low is not None and row.qwk_high is not None
        else UNKNOWN
    )
    known = [
        (words._("Pack"), row.pack),
        (words._("Reference"), row.reference),
        (words._("Made"), words.moment(row.created)),
        (words._("Names the improvement (scores below 5)"), words.percent(row.names_improvement_rate)),
        (words._("Cites evidence"), words.percent(row.cites_evidence_rate)),
        (words._("Justifies the level"), words.percent(row.justifies_level_rate)),
        (words._("Sees safety"), words.percent(row.catches_safety_rate)),
        (words._("Stricter (−) or milder (+) than the reference"), words.signed(row.bias)),
        (words._("Same score"), words.percent(row.exact_rate)),
        (words._("Two points or more apart"), words.number(row.outliers)),
        (words._("Difference in quality, mean over cells"), words.pct(row.quality_pct_delta, 1)),
        (words._("Best constant answer"), words.number(row.constant_score)),
        (words._("Mean distance of the best constant answer"), words.number(row.constant_mean_abs_delta, 2)),
        (words._("Skill (1 is perfect, 0 is the best constant answer)"), words.number(row.skill, 2)),
        (words._("Agreement, quadratic kappa"), words.number(row.qwk, 2)),
        (words._("95% interval of kappa"), interval),
        (words._("Same view on knock-outs"), words.percent(row.ko_concordance)),
        (words._("Knock-outs found"), words.number(row.ko_hits)),
        (words._("Knock-outs missed"), words.number(row.ko_missed)),
        (words._("False alarms"), words.number(row.ko_false_alarms)),
        (words._("Rightly clear"), words.number(row.ko_clear)),
    ]
    return [(name, value) for name, value in known if value and value != UNKNOWN]
