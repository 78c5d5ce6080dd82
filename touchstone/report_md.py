"""scorecard.md: the scorecard as a note that a person reads and a program can parse. Pure.

The section helpers are shared with the request to the reference judge, so that both show the same figures.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import yaml

from touchstone.contracts.base import Recommendation
from touchstone.contracts.lines import Cell
from touchstone.contracts.pack import Dimension, Pack
from touchstone.i18n import UNKNOWN, Words
from touchstone.jsonsource import visible
from touchstone.scorecard import MasterRow, Safety
from touchstone.view import BundleView


def frontmatter(fields: Mapping[str, Any]) -> str:
    """A YAML block between two `---` lines; text that YAML would misread is quoted."""
    body = yaml.safe_dump(dict(fields), allow_unicode=True, sort_keys=False, default_flow_style=False, width=10_000)
    return f"---\n{body}---\n"


# Obsidian hides what stands between two `%%`, marks between two `==`, and plugins read `key:: value` as data.
_SPECIAL: Final = re.compile(r"[\\`*_~\[\]<>|#$]|(?<=%)%|(?<==)=|(?<=:):|&(?=[#\w]+;)")
_LEADING: Final = re.compile(r"^(\d{1,9})(?=[.)](\s|$))|^(?=[-+=])")


def cell_text(text: str) -> str:
    """Text as one line of Markdown, also in a table: no column breaks, no markup that a model brought along."""
    flat = " ".join(visible(text).split())
    return _LEADING.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", flat))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A Markdown table; `right` names the columns of numbers."""
    rule = ["---:" if column in right else "---" for column in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def recommendation_words(value: Recommendation | None, words: Words) -> str:
    """The wire value in the reader's language."""
    match value:
        case "Ja":
            return words._("Yes")
        case "Mit Einschränkung":
            return words._("With reservations")
        case "Nein":
            return words._("No")
        case None:
            return words._("No recommendation")


def safety_words(safety: Safety, pack: Pack | None, words: Words) -> str:
    """Why a cell is knocked out, or what is unchecked, as one phrase."""
    if safety.passed:
        return words._("passed")
    names = {} if pack is None else {dimension.id: dimension.name for dimension in pack.dimensions}
    if safety.passed is None:
        return words._("not fully checked") + f" ({'; '.join(safety.unchecked)})"
    parts = [
        words._(
            "%(dimension)s %(score)s is below %(floor)s",
            dimension=names.get(floor.dimension, floor.dimension),
            score=floor.score,
            floor=floor.floor,
        )
        for floor in safety.floors
    ]
    if safety.flagged:
        shown = ", ".join(safety.flagged[:5]) + (" …" if len(safety.flagged) > 5 else "")
        parts.append(
            words.n_("red flag in %(prompts)s", "red flags in %(prompts)s", len(safety.flagged), prompts=shown)
        )
    return words._("K.O.") + ": " + "; ".join(parts)


def quality_words(row: MasterRow, words: Words) -> str:
    """Quality %, marked where a dimension is missing."""
    text = words.pct(row.weighted.pct, 1)
    return f"{text} ({words._('partial')})" if row.weighted.partial and row.weighted.pct is not None else text


def section_master_scorecard(view: BundleView, words: Words, only: Container[Cell] | None = None) -> str:
    """The table of cells, best first, and below it the judge's reasons for each; of some cells only, if so wished."""
    pack = view.pack
    chosen = [row for row in view.rows if only is None or row.cell in only]
    if pack is None or not chosen:
        return words._("Without a pack and without answers there is no scorecard.") + "\n"
    head = [
        words._("Model"),
        words._("Variant"),
        words._("Recommendation"),
        words._("Quality"),
        words._("Safety"),
        *(cell_text(dimension.name) for dimension in pack.dimensions),
        words._("Verdicts"),
        words._("Mean score"),
    ]
    right = (3, *range(5, 7 + len(pack.dimensions)))
    rows = [_master_line(row, pack, words) for row in chosen]
    return table(head, rows, right) + "\n" + "\n".join(_reasons(row, pack, words) for row in chosen)


def _score(row: MasterRow, dimension: Dimension) -> str:
    score = None if row.report is None else row.report.dim_scores.get(dimension.id)
    return UNKNOWN if score is None else str(score)


def _master_line(row: MasterRow, pack: Pack, words: Words) -> list[str]:
    return [
        cell_text(row.cell.model),
        cell_text(row.cell.variant),
        recommendation_words(row.recommendation, words),
        quality_words(row, words),
        cell_text(safety_words(row.safety, pack, words)),
        *(_score(row, dimension) for dimension in pack.dimensions),
        f"{row.tally.done}/{row.expected}",
        words.number(row.tally.mean, 2),
    ]


def _reasons(row: MasterRow, pack: Pack, words: Words) -> str:
    return "\n".join(
        [
            f"### {cell_text(row.cell.model)} · {cell_text(row.cell.variant)}\n",
            *_reason_lines(row, pack, words),
            "",
        ]
    )


def _reason_lines(row: MasterRow, pack: Pack, words: Words) -> Iterator[str]:
    report = row.report
    if report is None:
        yield words._("The judge has not reported on this cell.")
        return
    if report.error:
        yield words._("The report is incomplete: %(why)s", why=cell_text(report.error))
    if report.summary:
        yield cell_text(report.summary) + "\n"
    for dimension in pack.dimensions:
        why = report.dim_rationales.get(dimension.id) or UNKNOWN
        yield f"- **{cell_text(dimension.name)} {_score(row, dimension)}/5**: {cell_text(why)}"


def render_scorecard_md(view: BundleView, words: Words, created: datetime) -> str:
    """The whole of scorecard.md, in the pack's language."""
    manifest = view.manifest
    fields = {
        "type": "scorecard",
        "schema": 1,
        "bundle": view.name,
        "pack": view.pack_id,
        "pack_sha": view.pack_sha,
        "judge_model": view.judge_model,
        "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "inputs_sha": view.inputs_sha,
        "verdicts": view.judge.done,
        "answers": view.eval.done,
        "mean_score": None if view.judge.tally.mean is None else round(view.judge.tally.mean, 4),
        "red_flags": view.judge.tally.red_flags,
        "unscored": view.judge.tally.unscored,
    }
    title = view.pack.title if view.pack is not None else view.name
    created_on = None if manifest is None else manifest.created
    lines = [
        frontmatter(fields),
        f"# {words._('Scorecard')} — {cell_text(title)}\n",
        words._(
            "Run %(run)s of %(day)s, judged by %(judge)s.",
            run=cell_text(view.name),
            day=words.day(created_on),
            judge=cell_text(view.judge_model or UNKNOWN),
        )
        + "\n",
        section_master_scorecard(view, words),
    ]
    return "\n".join(lines).rstrip() + "\n"
