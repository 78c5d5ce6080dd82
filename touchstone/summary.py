"""A run in a nutshell: what the pages over all runs need to know of it, small enough to be kept between builds. Pure.

`summarise` takes it from a bundle's view; `recall` makes a view of it that has forgotten keys and texts. Pages over all
runs are made from such views alone, so it does not matter whether a run was read just now or remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from touchstone.contracts.lines import Answer, Cell, Report, Verdict
from touchstone.contracts.manifest import Manifest
from touchstone.contracts.pack import Pack
from touchstone.events import EvalDone, EvalFold, ModelSpeed
from touchstone.judge_compare import frontmatter_of
from touchstone.judge_events import JudgeDone, JudgeFold, Tally, VerdictEvent
from touchstone.keys import KeyIndex
from touchstone.load import LoadFold
from touchstone.view import BundleView, Problems

MAX_QUALITY: Final = 200_000
"""Characters of a judge_quality.md that is kept whole: its tables say pair by pair what the judge gave."""


@dataclass(frozen=True, slots=True)
class CellSummary:
    """One cell: its counts and its report without the texts."""

    cell: Cell
    tally: Tally
    flagged: tuple[str, ...]
    answers: int
    answers_sum: int
    listed: bool
    """It has keys; else it is known from its report alone."""
    report: Report | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of a run; JSON by `dump` and `load`."""

    name: str
    manifest: Manifest | None
    pack_sha: str | None
    cells: tuple[CellSummary, ...]
    tally: Tally
    slots: int
    judge_model: str | None
    full_judge_model: str | None
    announced: int | None
    judge_started: bool
    judge_ended: JudgeDone | None
    judge_ts: float | None
    answers: int
    speeds: tuple[ModelSpeed, ...]
    eval_announced: int | None
    eval_started: bool
    eval_ended: EvalDone | None
    eval_ts: float | None
    broken_lines: int
    quality: str | None
    """judge_quality.md; of a long one the frontmatter alone."""


_SUMMARY: Final = TypeAdapter(Summary)


def dump(summary: Summary) -> str | None:
    """As JSON; None for what JSON cannot say (bundle.yaml may hold anything that YAML knows)."""
    try:
        text = _SUMMARY.dump_json(summary, by_alias=True)
        return text.decode() if _SUMMARY.validate_json(text) == summary else None
    except (ValidationError, PydanticSerializationError, ValueError, RecursionError):
        return None


def load(text: str) -> Summary | None:
    """From JSON; None if it is none of ours."""
    try:
        return _SUMMARY.validate_json(text)
    except (ValidationError, ValueError, RecursionError):
        return None


def summarise(view: BundleView) -> Summary:
    """What is to be kept of a run."""
    present = {cell: number for number, cell in enumerate(view.keys.cells)}
    judge, run = view.judge, view.eval
    return Summary(
        name=view.name,
        manifest=view.manifest,
        pack_sha=view.pack_sha,
        cells=tuple(
            CellSummary(
                facts.cell,
                facts.tally,
                facts.flagged,
                facts.expected,
                run.cell_sum(present.get(facts.cell, -1)),
                facts.cell in present,
                None if facts.report is None else _without_texts(facts.report),
            )
            for facts in view.cells
        ),
        tally=judge.tally,
        slots=view.keys.slots,
        judge_model=judge.judge_model,
        full_judge_model=judge.full_judge_model,
        announced=judge.announced,
        judge_started=judge.started,
        judge_ended=judge.ended,
        judge_ts=judge.last_ts,
        answers=run.done,
        speeds=tuple(run.speeds()),
        eval_announced=run.announced,
        eval_started=run.started,
        eval_ended=run.ended,
        eval_ts=run.last_ts,
        broken_lines=view.broken_lines,
        quality=_kept(view.quality_md),
    )


def _kept(quality_md: str | None) -> str | None:
    return quality_md if quality_md is None or len(quality_md) <= MAX_QUALITY else frontmatter_of(quality_md)


def _without_texts(report: Report) -> Report:
    return report.model_copy(update={"dim_rationales": {}, "summary": None, "raw": None})


class _Nothing:
    """Where the texts are: not here."""

    def answer(self, number: int) -> Answer | None:
        return None

    def verdict(self, number: int) -> Verdict | VerdictEvent | None:
        return None

    def answers(self, numbers: object) -> list[Answer | None]:
        return []

    def verdicts(self, numbers: object) -> list[Verdict | VerdictEvent | None]:
        return []


def recall(summary: Summary, pack: Pack | None) -> BundleView:
    """The run as pages over all runs see it."""
    listed = [each for each in summary.cells if each.listed]
    keys = KeyIndex.of_cells((each.cell for each in listed), summary.slots)
    view = BundleView(
        name=summary.name,
        manifest=summary.manifest,
        pack=pack,
        pack_sha=summary.pack_sha,
        keys=keys,
        eval=EvalFold.recalled(
            keys,
            answers={number: each.answers for number, each in enumerate(listed)},
            sums={number: each.answers_sum for number, each in enumerate(listed)},
            speeds=summary.speeds,
            announced=summary.eval_announced,
            started=summary.eval_started,
            ended=summary.eval_ended,
            last_ts=summary.eval_ts,
        ),
        judge=JudgeFold.recalled(
            keys,
            tally=summary.tally,
            cells={number: each.tally for number, each in enumerate(listed)},
            announced=summary.announced,
            started=summary.judge_started,
            ended=summary.judge_ended,
            judge_model=summary.judge_model,
            full_judge_model=summary.full_judge_model,
            last_ts=summary.judge_ts,
        ),
        load=LoadFold(),
        reports={each.cell: each.report for each in summary.cells if each.report is not None},
        problems={"": Problems(summary.broken_lines)} if summary.broken_lines else {},
        notes=(),
        quality_md=summary.quality,
        scorecard_md=None,
        source=_Nothing(),
    )
    view.__dict__["flagged"] = {each.cell: each.flagged for each in summary.cells if each.flagged}
    return view
