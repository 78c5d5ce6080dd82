"""judge_quality.md: how good the local judge is, as a note for people whose frontmatter programs read. Pure.

Figures are rounded once, for the frontmatter; the body says those, so that the two never disagree. The table of pairs
in section 1 is read back (`read_pairs`) where two judges of the same answers are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from touchstone import agreement
from touchstone.agreement import Share
from touchstone.contracts.base import Recommendation, finite_or_none
from touchstone.contracts.response import RubricCheck
from touchstone.i18n import UNKNOWN, Words
from touchstone.judge_compare import TYPE, row_of
from touchstone.judge_words import figures, lead, real, share_words
from touchstone.meta_evaluation import CHECKS, CellReview, DimensionReview, MetaEvaluation
from touchstone.report_md import cell_text, frontmatter, recommendation_words, table
from touchstone.view import BundleView

CASES_SHOWN: Final = 20
"""The most striking cases that the body describes; the form has them all."""


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return finite_or_none(None if value is None else round(value, digits))


def quality_fields(view: BundleView, evaluation: MetaEvaluation, created: datetime) -> dict[str, Any]:
    """The frontmatter."""
    pairs, kos = evaluation.pairs, evaluation.knock_outs
    constant = agreement.best_constant(pairs)
    interval = agreement.quadratic_kappa_interval(evaluation.by_model)
    rates: dict[str, Any] = {
        f"{check}_rate": _rounded(evaluation.rate(check).rate, 2)
        for check in ("names_improvement", "cites_evidence", "justifies_level", "catches_safety")
    }
    prompts = (report.prompt_sha for report in view.reports.values())
    return {
        "type": TYPE,
        "schema": 1,
        "bundle": view.name,
        "pack": view.pack_id,
        "pack_sha": view.pack_sha,
        "judge_model": view.judge_model,
        "judge_prompt": next((sha for sha in prompts if sha), None),
        "reference": evaluation.reference,
        "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "inputs_sha": view.inputs_sha,
        "mean_abs_delta": _rounded(agreement.mean_abs_delta(pairs), 2),
        **rates,
        "quality_pct_delta": _rounded(evaluation.quality_pct_delta),
        "pairs": len(pairs),
        "pairs_expected": evaluation.pairs_expected,
        "bias": _rounded(agreement.bias(pairs)),
        "exact_rate": _rounded(agreement.share_within(pairs, 0)),
        "outliers": agreement.outliers(pairs),
        "constant_score": None if constant is None else constant.score,
        "constant_mean_abs_delta": None if constant is None else _rounded(constant.mean_abs_delta),
        "skill": _rounded(agreement.skill(pairs)),
        "qwk": _rounded(agreement.quadratic_kappa(pairs)),
        "qwk_low": None if interval is None else _rounded(interval.low),
        "qwk_high": None if interval is None else _rounded(interval.high),
        "ko_concordance": _rounded(kos.concordance),
        "ko_hits": kos.hits,
        "ko_missed": kos.missed,
        "ko_false_alarms": kos.false_alarms,
        "ko_clear": kos.clear,
    }


def render_quality_md(fields: Mapping[str, Any], evaluation: MetaEvaluation, words: Words) -> str:
    """The whole file, in the pack's language."""
    _, row = words._, row_of(fields, str(fields["bundle"]))
    judge = cell_text(row.judge_model or UNKNOWN)
    blocks = [
        "# " + _("Judge quality") + f" — {cell_text(row.bundle)} · " + _("Judge") + f" {judge}",
        lead(row, words),
        *_cautions(row.judge_model, evaluation, words),
        "## " + _("Headline"),
        table([_("Figure"), _("Value")], [[name, cell_text(value)] for name, value in figures(row, words)]),
        "## 1. " + _("Agreement (calibration)"),
        *_agreement(evaluation, words),
        "## 2. " + _("Quality of the reasons (patterns)"),
        *_reasons(evaluation, words),
        "## 3. " + _("Recommended improvements of the judge prompt"),
        "\n".join(f"- [ ] {cell_text(text)}" for text in evaluation.recommendations)
        or _("The reference recommends nothing."),
    ]
    return frontmatter(fields) + "\n" + "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def _cautions(judge: str | None, evaluation: MetaEvaluation, words: Words) -> Iterator[str]:
    if judge in {each.cell.model for each in evaluation.cells}:
        yield words._("Mind that the judge is one of the judged models here.")


# -- 1. agreement


def _agreement(evaluation: MetaEvaluation, words: Words) -> Iterator[str]:
    _ = words._
    head = [_("Model"), _("Variant"), _("Dimension"), _("Local"), _("Reference"), "Δ", _("Remark")]
    lines = [_pair_line(cell, each, words) for cell, each in evaluation.reviews if cell.given is not None]
    if lines:
        yield _("Δ is local − reference: above 0 the local judge is milder.")
        yield table(head, lines, (3, 4, 5))
        yield "### " + _("Cells")
        yield _(
            "Quality of both sides is computed over the dimensions that both scored. The overall verdicts stand side by"
            " side for information."
        )
        yield _cells(evaluation, words)
        yield "### " + _("Knock-outs")
        yield from _knock_outs(evaluation, words)
    if len(evaluation.pairs) >= agreement.MIN_PAIRS:
        yield _order(evaluation, words)
    gaps = _gaps(evaluation, words)
    if gaps:
        yield gaps
    if evaluation.missing:
        names = "; ".join(f"{cell_text(cell.model)} · {cell_text(cell.variant)}" for cell in evaluation.missing)
        yield _("Not meta-evaluated:") + f" {names}"


def _gaps(evaluation: MetaEvaluation, words: Words) -> str:
    """Why pairs are missing."""
    local = sum(each.local is None for _, each in evaluation.reviews)
    reference = sum(each.reference is None for _, each in evaluation.reviews)
    parts = []
    if local:
        parts.append(words.n_("the local judge left %(n)s open", "the local judge left %(n)s open", local))
    if reference:
        parts.append(words.n_("the reference left %(n)s open", "the reference left %(n)s open", reference))
    return words._("Of the expected pairs, %(gaps)s.", gaps=", ".join(parts)) if parts else ""


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _pair_line(cell: CellReview, each: DimensionReview, words: Words) -> list[str]:
    delta = UNKNOWN if each.delta is None else words.signed(each.delta, 0)
    guarded = each.dimension.ko_floor is not None
    remark = ""
    if each.outlier:
        remark = "🚩🚩 **" + words._("outlier in a K.O. dimension") + "**" if guarded else "🚩 " + words._("outlier")
    return [
        cell_text(cell.cell.model),
        cell_text(cell.cell.variant),
        cell_text(each.dimension.name),
        _number(each.local),
        _number(each.reference),
        delta,
        remark,
    ]


def _cells(evaluation: MetaEvaluation, words: Words) -> str:
    _ = words._
    head = [
        _("Model"),
        _("Variant"),
        _("Mean distance"),
        _("Quality, local"),
        _("Quality, reference"),
        "Δ",
        _("K.O., local / reference"),
        _("Overall, local / reference"),
    ]
    lines = [_cell_line(each, words) for each in evaluation.cells if each.given is not None]
    return table(head, lines, (2, 3, 4, 5))


def _cell_line(each: CellReview, words: Words) -> list[str]:
    fresh = None if each.given is None else each.given.fresh_scores
    overall: Recommendation | None = None if fresh is None else fresh.overall
    return [
        cell_text(each.cell.model),
        cell_text(each.cell.variant),
        words.number(each.mean_abs_delta, 2),
        words.pct(each.quality(local=True).pct, 1),
        words.pct(each.quality(local=False).pct, 1),
        words.signed(each.quality_delta, 1),
        f"{_yes_no(each.ko_local, words)} / {_yes_no(each.ko_reference, words)}",
        f"{_overall(each.row.recommendation, words)} / {_overall(overall, words)}",
    ]


def _yes_no(value: bool | None, words: Words) -> str:
    return UNKNOWN if value is None else words._("yes") if value else words._("no")


def _overall(value: Recommendation | None, words: Words) -> str:
    return UNKNOWN if value is None else recommendation_words(value, words)


def _knock_outs(evaluation: MetaEvaluation, words: Words) -> Iterator[str]:
    _, kos = words._, evaluation.knock_outs
    head = ["", _("Reference: K.O."), _("Reference: no K.O.")]
    lines = [
        [
            _("Local: K.O."),
            _("%(n)s found", n=kos.hits),
            words.n_("%(n)s false alarm", "%(n)s false alarms", kos.false_alarms),
        ],
        [_("Local: no K.O."), _("%(n)s missed", n=kos.missed), _("%(n)s rightly clear", n=kos.clear)],
    ]
    yield table(head, lines)
    facts = [
        _("Knock-outs found") + ": " + share_words(kos.recall, words),
        _("False alarms") + ": " + share_words(kos.false_alarm, words),
    ]
    if kos.unknown:
        facts.append(
            words.n_(
                "%(n)s cell is in none of the four, because one side left it open",
                "%(n)s cells are in none of the four, because one side left them open",
                kos.unknown,
            )
        )
    yield "\n".join(f"- {fact}" for fact in facts)


def _order(evaluation: MetaEvaluation, words: Words) -> str:
    pairs = evaluation.pairs
    return words._(
        "Krippendorff's alpha (ordinal) %(alpha)s, Spearman's ρ %(rho)s, Kendall's τ-b %(tau)s.",
        alpha=real(agreement.ordinal_alpha(pairs), words),
        rho=real(agreement.spearman(pairs), words),
        tau=real(agreement.kendall_tau_b(pairs), words),
    )


# -- 2. reasons


def check_name(check: RubricCheck, words: Words) -> str:
    """A rubric check, as tables call it."""
    match check:
        case "cites_evidence":
            return words._("Cites evidence")
        case "names_improvement":
            return words._("Names the improvement (scores below 5)")
        case "justifies_level":
            return words._("Justifies the level")
        case "catches_safety":
            return words._("Sees safety")


def _reasons(evaluation: MetaEvaluation, words: Words) -> Iterator[str]:
    _ = words._
    rates = {check: evaluation.rate(check) for check in CHECKS}
    yield table([_("Check"), _("Passed")], [[check_name(c, words), _passed(rate, words)] for c, rate in rates.items()])
    named = rates["names_improvement"]
    yield "**" + _("%(k)s/%(n)s scores below 5 without an improvement named", k=named.n - named.k, n=named.n) + "**"
    cases = [(cell, each) for cell, each in evaluation.reviews if each.critique is not None and each.critique.filled]
    striking = sorted((case for case in cases if _strikes(case[1])), key=lambda case: _rank(case[1]))
    if striking:
        yield "### " + _("The most striking cases")
        yield "\n".join(_case(cell, each, words) for cell, each in striking[:CASES_SHOWN])
        if len(striking) > CASES_SHOWN:
            left = len(striking) - CASES_SHOWN
            yield words.n_("%(n)s more is in the form.", "%(n)s more are in the form.", left)
    summaries = [
        f"- {cell_text(each.cell.model)} · {cell_text(each.cell.variant)}: {cell_text(summary)}"
        for each in evaluation.cells
        if each.given is not None and each.given.critique is not None and (summary := each.given.critique.summary)
    ]
    if summaries:
        yield "### " + _("Cell by cell")
        yield "\n".join(summaries)


def _passed(rate: Share, words: Words) -> str:
    return UNKNOWN if rate.n == 0 else share_words(rate, words)


def _failed(each: DimensionReview) -> list[RubricCheck]:
    return [check for check in CHECKS if each.check(check) is False]


def _strikes(each: DimensionReview) -> bool:
    return bool(_failed(each)) or bool(each.critique is not None and each.critique.note)


def _rank(each: DimensionReview) -> tuple[bool, int, int]:
    return each.dimension.ko_floor is None, -len(_failed(each)), -abs(each.delta or 0)


def _case(cell: CellReview, each: DimensionReview, words: Words) -> str:
    where = " · ".join(map(cell_text, (*cell.cell, each.dimension.name)))
    scores = words._(
        "local %(local)s, reference %(reference)s", local=_number(each.local), reference=_number(each.reference)
    )
    failed = _failed(each)
    lacks = f"; {_lacks(failed, words)}" if failed else ""
    note = each.critique.note if each.critique is not None else None
    return f"- **{where}** ({scores}{lacks})" + (f": {cell_text(note)}" if note else "")


def _lacks(failed: Sequence[RubricCheck], words: Words) -> str:
    if len(failed) == len(CHECKS):
        return words._("fails all four checks")
    short = {
        "cites_evidence": words._("evidence"),
        "names_improvement": words._("improvement"),
        "justifies_level": words._("level"),
        "catches_safety": words._("safety"),
    }
    return words._("lacks: %(checks)s", checks=", ".join(short[check] for check in failed))


# -- reading it back


class PairKey(NamedTuple):
    """Which pair of one file: names as the table has them."""

    model: str
    variant: str
    dimension: str
    again: int
    """0, and more where several dimensions have the same name."""


_CELL: Final = re.compile(r"(?:\\.|[^\\|])+")


def read_pairs(text: str) -> dict[PairKey, tuple[int, int]]:
    """(local, reference) of each pair in the table of section 1; empty for a text without such a table."""
    found: dict[PairKey, tuple[int, int]] = {}
    for line in text.splitlines():
        if not line.startswith("| "):
            continue
        cells = [cell.strip() for cell in _CELL.findall(line)]
        if len(cells) != 7 or cells[3] not in _SCORES or cells[4] not in _SCORES:
            continue
        again = 0
        while (key := PairKey(cells[0], cells[1], cells[2], again)) in found:
            again += 1
        found[key] = int(cells[3]), int(cells[4])
    return found


_SCORES: Final = frozenset("12345")
