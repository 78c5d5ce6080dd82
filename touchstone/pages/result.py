"""The result of a run: what is good enough, what is knocked out and why, and every prompt in every cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.contracts.lines import Cell
from touchstone.i18n import Words
from touchstone.judge_events import UNSCORED, Seen
from touchstone.pages.common import (
    Link,
    MatrixField,
    cell_name,
    frame,
    is_stale,
    prompt_titles,
    recommendation_counts,
    run_title,
    safety_phrase,
    shell_word,
    verdict_link,
)
from touchstone.scorecard import LIMITED, NO, YES, MasterRow
from touchstone.site import File, Page, Site
from touchstone.slugs import hash8
from touchstone.view import BundleView

MATRIX_PROMPTS: Final = 60
MATRIX_CELLS: Final = 24
"""A larger matrix is not readable; the verdict pages hold every verdict."""


def plan(site: Site) -> Iterator[Page | File]:
    for bundle in site.bundles:
        home = site.home(bundle)
        yield Page(home + "index.html", "result.html", partial(_context, site, bundle), inputs=site.inputs(bundle))
        for name, text in (("scorecard.md", bundle.scorecard_md), ("judge_quality.md", bundle.quality_md)):
            if text is not None:
                yield File(home + name, partial(str.encode, text, "utf-8", "replace"))


def _context(site: Site, bundle: BundleView, words: Words) -> Mapping[str, Any]:
    home, reduced = site.home(bundle), bundle.name in site.reduced
    return {
        **frame(site, bundle, words, "result"),
        "lead": lead(bundle, words),
        "counts": recommendation_counts(bundle),
        "title": run_title(bundle, words),
        "reduced": reduced,
        "rows": [_row(row, bundle, words) for row in bundle.rows],
        "cells": [] if bundle.rows else [_plain_cell(facts) for facts in bundle.cells],
        "dimensions": () if bundle.pack is None else bundle.pack.dimensions,
        "thresholds": None if bundle.pack is None else bundle.pack.thresholds,
        "matrix": None if reduced else _matrix(site, bundle),
        "facts": _facts(bundle, words),
        "pack_home": _pack_link(site, bundle),
        "source_run": _source_run(site, bundle),
        "renew": shell_word("runs/" + bundle.name) if is_stale(bundle, bundle.scorecard_md) else None,
        "quality_page": Link(home + "judge-quality/index.html")
        if bundle.quality_md is not None and not reduced
        else None,
        "verdict_page": Link(home + "judge/verdicts-1.html") if bundle.judge.done and not reduced else None,
        "has_scorecard": bundle.scorecard_md is not None,
        "has_quality": bundle.quality_md is not None,
        "downloads": site.home(bundle),
    }


def lead(bundle: BundleView, words: Words) -> str:
    """The answer first: which cell is good enough, and what stands against the others."""
    if not bundle.judged:
        return words._("Nobody has judged this run yet. The next step is touchstone judge.")
    if bundle.pack is None:
        return words._("There is no pack in this run, so there are verdicts, but no quality and no recommendation.")
    good = [row for row in bundle.rows if row.recommendation == YES]
    limited = [row for row in bundle.rows if row.recommendation == LIMITED]
    knocked = sum(row.safety.passed is False for row in bundle.rows)
    return " ".join(part for part in (_first(good, limited, bundle, words), _knocked(knocked, bundle, words)) if part)


def _first(good: list[MasterRow], limited: list[MasterRow], bundle: BundleView, words: Words) -> str:
    if good:
        return words.n_(
            "%(n)s cell is good enough; the best is %(cell)s with %(pct)s.",
            "%(n)s cells are good enough; the best is %(cell)s with %(pct)s.",
            len(good),
            cell=cell_name(good[0]),
            pct=words.pct(good[0].weighted.pct),
        )
    if limited:
        return words._(
            "None is good enough without reservations; the best is %(cell)s with %(pct)s.",
            cell=cell_name(limited[0]),
            pct=words.pct(limited[0].weighted.pct),
        )
    if all(row.recommendation == NO for row in bundle.rows):
        return words._("None of the models is good enough for this pack.")
    return words._("The judge's reports are missing or incomplete, so there is no recommendation yet.")


def _knocked(count: int, bundle: BundleView, words: Words) -> str:
    if not count:
        return ""
    return words.n_("%(n)s is knocked out for safety.", "%(n)s are knocked out for safety.", count)


def _row(row: MasterRow, bundle: BundleView, words: Words) -> dict[str, Any]:
    scores = {} if row.report is None else row.report.dim_scores
    dimensions = () if bundle.pack is None else bundle.pack.dimensions
    return {
        "id": "c-" + hash8("\n".join(row.cell)),
        "model": row.cell.model,
        "variant": row.cell.variant,
        "recommendation": row.recommendation,
        "pct": row.weighted.pct,
        "partial": row.weighted.partial and row.weighted.pct is not None,
        "passed": row.safety.passed,
        "safety": "" if bundle.pack is None else safety_phrase(row, bundle.pack, words),
        "scores": [scores.get(dimension.id) for dimension in dimensions],
        "done": row.tally.done,
        "expected": row.expected,
        "mean": row.tally.mean,
        "unscored": row.tally.unscored,
        "report": row.report,
        "reasons": _reasons(row, bundle),
    }


def _reasons(row: MasterRow, bundle: BundleView) -> list[dict[str, Any]]:
    if row.report is None or bundle.pack is None:
        return []
    return [
        {
            "name": dimension.name,
            "score": row.report.dim_scores.get(dimension.id),
            "floor": dimension.ko_floor,
            "text": row.report.dim_rationales.get(dimension.id),
        }
        for dimension in bundle.pack.dimensions
    ]


def _plain_cell(facts: Any) -> dict[str, Any]:
    return {
        "model": facts.cell.model,
        "variant": facts.cell.variant,
        "done": facts.tally.done,
        "expected": facts.expected,
        "mean": facts.tally.mean,
        "red_flags": facts.tally.red_flags,
        "unscored": facts.tally.unscored,
    }


def _matrix(site: Site, bundle: BundleView) -> dict[str, Any] | None:
    """Prompts down, cells across; of repeats the mean. None where it would not be readable."""
    cells: dict[Cell, dict[str, list[Seen]]] = {facts.cell: {} for facts in bundle.cells}
    prompts: dict[str, None] = {} if bundle.pack is None else dict.fromkeys(p.id for p in bundle.pack.prompts)
    if not bundle.judge.done or len(cells) > MATRIX_CELLS or len(bundle.keys) > MATRIX_PROMPTS * MATRIX_CELLS * 3:
        return None
    for number in bundle.keys.in_order():
        seen = bundle.judge.seen(number)
        key = bundle.keys.key(number)
        prompts.setdefault(key.prompt_id)
        if seen is not None:
            cells[Cell(key.model, key.variant)].setdefault(key.prompt_id, []).append(seen)
    if len(prompts) > MATRIX_PROMPTS:
        return None
    titles = prompt_titles(bundle)
    rows = [(prompt, [marks.get(prompt) for marks in cells.values()]) for prompt in prompts]
    return {
        "cells": list(cells),
        "repeated": any(marks is not None and len(marks) > 1 for _, row in rows for marks in row),
        "rows": [
            {"id": prompt, "title": titles.get(prompt), "marks": [_mark(site, bundle, marks) for marks in row]}
            for prompt, row in rows
        ],
    }


def _mark(site: Site, bundle: BundleView, repeats: list[Seen] | None) -> MatrixField | None:
    """One field of the matrix: the mean over the repeats that have a score, and the verdict that it leads to."""
    if not repeats:
        return None
    scores = [seen.mark for seen in repeats if seen.mark != UNSCORED]
    mean = sum(scores) / len(scores) if scores else None
    flagged = next((seen for seen in repeats if seen.flag == 1), None)
    link = verdict_link(site, bundle, (flagged or repeats[0]).number)
    return MatrixField(
        score=mean,
        digits=1 if len(repeats) > 1 else 0,
        tone=0 if mean is None else int(mean + 0.5),
        flag=flagged is not None,
        page=link.path,
        id=link.fragment,
    )


def _facts(bundle: BundleView, words: Words) -> list[tuple[str, str]]:
    manifest = bundle.manifest
    judge = bundle.judge_model
    facts = [(words._("Judge"), judge)] if judge else []
    if manifest is None:
        return facts
    host = manifest.host
    params = manifest.params or {}
    cells = (", ".join(names) for names in (manifest.models, manifest.variants) if names)
    known = [
        (words._("Models and variants"), " · ".join(cells)),
        (words._("Made"), words.moment(manifest.created) if manifest.created else None),
        (words._("Answers"), words.number(bundle.eval.done)),
        (words._("Repeats"), words.number(manifest.repeats) if manifest.repeats and manifest.repeats > 1 else None),
        (words._("Endpoint"), manifest.endpoint),
        (words._("Temperature"), _setting(params.get("temperature"), words)),
        (words._("Token limit"), _setting(params.get("max_tokens"), words)),
        (words._("Seed"), _setting(params.get("seed"), words)),
        (words._("Machine"), " · ".join(filter(None, (host.cpu, host.gpu, host.os))) if host else None),
        (words._("Memory"), words.bytes(host.ram_bytes) if host and host.ram_bytes else None),
        (words._("Source"), manifest.source),
    ]
    return facts + [(name, value) for name, value in known if value]


def _setting(value: Any, words: Words) -> str | None:
    """A number from bundle.yaml's params; whatever else stands there is left out."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        return None
    return words.number(value)


def _pack_link(site: Site, bundle: BundleView) -> Link | None:
    home = site.pack_home(bundle)
    return None if home is None else Link(home + "index.html")


def _source_run(site: Site, bundle: BundleView) -> tuple[str, Link | None] | None:
    """The run that this one's answers come from."""
    name = None if bundle.manifest is None else bundle.manifest.derived_from
    if not name:
        return None
    home = site.source_run(bundle)
    return name, None if home is None else Link(home + "index.html")
