"""Which notes there are: one a run, a pack, a model and a judge quality report, one of judges, one of runs. Pure.

A note is a value: its path, its template, its properties, and what the template shows. Its name comes from names in
the data alone, never from the language, so that a note keeps what the user wrote into it whatever the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from touchstone.contracts.base import Recommendation
from touchstone.contracts.lines import Cell, Verdict
from touchstone.i18n import Words
from touchstone.judge_compare import (
    JudgeQualityRow,
    group_by_pack,
    judge_quality_rows,
    quality_row,
    split_frontmatter,
)
from touchstone.judge_events import UNSCORED, Seen, VerdictEvent
from touchstone.judge_words import lead as quality_lead
from touchstone.pages.common import is_replay, is_stale, prompt_titles, row_id, run_title, safety_phrase
from touchstone.pages.result import lead
from touchstone.report_md import quality_words, recommendation_words
from touchstone.scorecard import NO, YES, MasterRow
from touchstone.site import Site
from touchstone.vault import base, charts
from touchstone.vault.names import block_id, link, names, property_link
from touchstone.vault.properties import LISTS, MAKER, OURS, Value, local, number, tag, text
from touchstone.vault.safe import Safe, document, inline, line
from touchstone.view import BundleView

INDEX: Final = "touchstone runs"
JUDGES: Final = "touchstone judges"
BASE: Final = "touchstone.base"
FOLDERS: Final = ("runs", "judges", "packs", "models", "charts")
SHOWN_VERDICTS: Final = 60
"""Flagged and unscored verdicts that a note lists; the others are counted."""
SHOWN_CELLS: Final = 100
REPORT_CHARS: Final = 60_000
_TITLE: Final = re.compile(r"\A\s*# [^\n]*\n")


@dataclass(frozen=True)
class Note:
    """One note."""

    path: str
    """Below the folder, with /; ends in .md."""
    template: str
    properties: Mapping[str, Value]
    context: Mapping[str, Any]


@dataclass(frozen=True)
class Attachment:
    """A file beside the notes that is no note: a chart, or the base."""

    path: str
    content: str
    mark: str
    """Stands in the file; where it is gone, somebody else wrote the file."""
    note: str | None = None
    """The path of the note that shows it."""
    editable: bool = False
    """People change it in Obsidian."""


class Vault:
    """What all notes together are made from."""

    def __init__(self, site: Site, words: Words) -> None:
        self.site, self.words = site, words

    @cached_property
    def runs(self) -> dict[str, str]:
        """Bundle name to its note."""
        return names("Run", (bundle.name for bundle in self.site.bundles))

    @cached_property
    def qualities(self) -> dict[str, str]:
        """Bundle name to the note of its judge_quality.md."""
        return names("Judge quality", (b.name for b in self.site.bundles if b.quality_md is not None))

    @cached_property
    def packs(self) -> dict[str, str]:
        """Folder of a pack's page to its note."""
        return names("Pack", (home.split("/")[1] for home in self.site.packs))

    @cached_property
    def models(self) -> dict[str, str]:
        """Model, as judged or as judge, to its note."""
        judged = {facts.cell.model: None for bundle in self.site.bundles for facts in bundle.cells}
        judges = {bundle.judge_model: None for bundle in self.site.bundles if bundle.judge_model}
        return names("Model", sorted({*judged, *judges}))

    def title(self, bundle: BundleView) -> str:
        """A run in a few words, with its judge: the same answers may have been judged more than once."""
        title = run_title(bundle, self.words)
        return f"{title} · {bundle.judge_model}" if bundle.judge_model else title

    def run(self, bundle: BundleView, *, table: bool = False) -> Safe:
        return link(self.runs[bundle.name], self.title(bundle), table=table)

    def model(self, name: str | None, *, table: bool = False) -> Safe:
        return Safe("—") if name is None else link(self.models[name], name, table=table)

    def pack(self, bundle: BundleView) -> str | None:
        home = self.site.pack_home(bundle)
        return None if home is None else self.packs[home.split("/")[1]]

    def url(self, path: str) -> str | None:
        """The page on the published site, where there is one."""
        return None if self.site.base_url is None else self.site.base_url + quote(path)


def plan(site: Site, words: Words) -> Iterator[Note | Attachment]:
    """Every note and attachment, each path once."""
    vault = Vault(site, words)
    for bundle in site.bundles:
        yield from _run(vault, bundle)
    yield from (_quality(vault, bundle, bundle.quality_md) for bundle in site.bundles if bundle.quality_md is not None)
    yield from (_pack(vault, home, bundles) for home, bundles in site.packs.items())
    yield from (_model(vault, name) for name in vault.models)
    yield _judges(vault)
    yield _index(vault)
    yield Attachment(BASE, base.text(words), base.MARK, editable=True)


def _note(
    vault: Vault,
    kind: str,
    path: str,
    template: str,
    fields: Mapping[str, Value],
    context: Mapping[str, Any],
    **more: Any,
) -> Note:
    """A note with the properties that all have; `more`: aliases, tags."""
    name = path.rpartition("/")[2].removesuffix(".md")
    aliases = list(
        dict.fromkeys(text(alias) for alias in more.get("aliases", ()) if text(alias) and text(alias) != name)
    )
    lists = {"tags": [tag(kind), *more.get("tags", ())], "aliases": aliases, "cssclasses": ["touchstone"]}
    assert tuple(lists) == LISTS
    properties = {OURS: MAKER, "ts_type": kind, **fields, **lists}
    shown = {**context, "index": link(INDEX), "base": BASE}
    return Note(path, f"obsidian/{template}.md", properties, shown)


# -- runs


def _run(vault: Vault, bundle: BundleView) -> Iterator[Note | Attachment]:
    words, note = vault.words, vault.runs[bundle.name]
    path = f"runs/{note}.md"
    drawn = [
        Attachment(charts.path_of(path, name), svg, charts.MARK, path)
        for name, svg in (("quality", charts.quality(bundle, words)), ("scores", charts.scores(bundle, words)))
        if svg is not None
    ]
    quality = vault.qualities.get(bundle.name)
    context = {
        "title": vault.title(bundle),
        "lead": lead(bundle, words),
        "charts": [chart.path.rpartition("/")[2] for chart in drawn],
        "dimensions": () if bundle.pack is None else bundle.pack.dimensions,
        "rows": [_row(vault, bundle, row) for row in bundle.rows[:SHOWN_CELLS]],
        "more_rows": max(0, len(bundle.rows) - SHOWN_CELLS),
        "verdicts": _verdicts(vault, bundle),
        "more_verdicts": max(0, bundle.judge.tally.flagged + bundle.judge.tally.unscored - SHOWN_VERDICTS),
        "broken": bundle.broken_lines,
        "facts": _facts(vault, bundle),
        "quality": None if quality is None else link(quality, words._("Judge quality")),
    }
    ko = [row for row in bundle.rows if row.safety.passed is False]
    tags = [tag("ko")] if ko else []
    yield _note(
        vault,
        "run",
        path,
        "run",
        _run_fields(vault, bundle, ko),
        context,
        aliases=[bundle.name, vault.title(bundle)],
        tags=tags,
    )
    yield from drawn


def _run_fields(vault: Vault, bundle: BundleView, ko: list[MasterRow]) -> dict[str, Value]:
    tally, manifest, pack = bundle.judge.tally, bundle.manifest, vault.pack(bundle)
    best = next((row for row in bundle.rows if row.weighted.pct is not None), None)
    models = dict.fromkeys(vault.models[facts.cell.model] for facts in bundle.cells)
    good = sum(row.recommendation == YES for row in bundle.rows)
    return {
        "ts_run": text(bundle.name),
        "ts_created": local(manifest.created if manifest is not None else None, vault.words.zone),
        "ts_pack": None if pack is None else property_link(pack),
        "ts_models": [property_link(model) for model in models],
        "ts_judge": property_link(vault.models[bundle.judge_model]) if bundle.judge_model else None,
        "ts_best": None if best is None else property_link(vault.models[best.cell.model]),
        "ts_quality_pct": None if best is None else number(best.weighted.pct, 1),
        "ts_recommendation": None if best is None else _said(best.recommendation, vault.words),
        "ts_good_cells": good if bundle.rows else None,
        "ts_ko_cells": len(ko) if bundle.rows else None,
        "ts_ko_models": [property_link(name) for name in dict.fromkeys(vault.models[row.cell.model] for row in ko)],
        "ts_answers": bundle.eval.done,
        "ts_verdicts": bundle.judge.done,
        "ts_mean_score": number(tally.mean, 2),
        "ts_red_flags": tally.red_flags if bundle.judge.done else None,
        "ts_unscored": tally.unscored if bundle.judge.done else None,
        "ts_replay": is_replay(bundle) is not None,
        "ts_url": vault.url(vault.site.home(bundle) + "index.html"),
    }


def _said(value: Recommendation | None, words: Words) -> str:
    return recommendation_words(value, words)


def _callout(row: MasterRow) -> str:
    """The callout type of a cell: what Obsidian colours and marks with an icon."""
    if row.safety.passed is False:
        return "danger"
    match row.recommendation:
        case "Ja":
            return "success"
        case "Mit Einschränkung":
            return "warning"
        case "Nein":
            return "failure"
        case None:
            return "question"


def _row(vault: Vault, bundle: BundleView, row: MasterRow) -> dict[str, Any]:
    pack, report, words = bundle.pack, row.report, vault.words
    assert pack is not None
    scores = {} if report is None else report.dim_scores
    reasons = {} if report is None else report.dim_rationales
    ko = row.safety.passed is False
    return {
        "model": vault.model(row.cell.model, table=True),
        "title": vault.model(row.cell.model),
        "variant": row.cell.variant,
        "callout": _callout(row),
        "recommendation": words._("K.O.") if ko and row.recommendation == NO else _said(row.recommendation, words),
        "quality": quality_words(row, words),
        "safety": safety_phrase(row, pack, words),
        "scores": [words.number(scores.get(dimension.id)) for dimension in pack.dimensions],
        "reasons": [
            {"name": d.name, "score": words.number(scores.get(d.id)), "text": line(reasons.get(d.id))}
            for d in pack.dimensions
        ],
        "report": report,
        "summary": None if report is None or not report.summary else report.summary,
        "done": words.number(row.tally.done),
        "expected": words.number(row.expected),
        "mean": words.number(row.tally.mean, 2),
        "block": block_id("\n".join(row.cell)),
    }


def _verdicts(vault: Vault, bundle: BundleView) -> list[dict[str, Any]]:
    """Red flags and unscored verdicts, in the order of the answers."""
    tally = bundle.judge.tally
    if not (tally.flagged or tally.unscored):
        return []
    titles = prompt_titles(bundle)
    every = (bundle.judge.seen(number_) for number_ in bundle.keys.in_order())
    told = (seen for seen in every if seen is not None and (seen.flag == 1 or seen.mark == UNSCORED))
    shown = list(islice(told, SHOWN_VERDICTS))
    verdicts = bundle.source.verdicts([seen.number for seen in shown])
    return [_verdict(vault, bundle, seen, verdict, titles) for seen, verdict in zip(shown, verdicts, strict=True)]


def _verdict(
    vault: Vault, bundle: BundleView, seen: Seen, verdict: Verdict | VerdictEvent | None, titles: Mapping[str, str]
) -> dict[str, Any]:
    key = bundle.keys.key(seen.number)
    return {
        "prompt": key.prompt_id,
        "title": titles.get(key.prompt_id),
        "model": vault.model(key.model),
        "variant": key.variant,
        "repeat": key.repeat,
        "flag": seen.flag == 1,
        "score": None if seen.mark == UNSCORED else seen.mark,
        "rationale": line(None if verdict is None else verdict.rationale or getattr(verdict, "error", None)),
        "block": row_id(key),
    }


def _facts(vault: Vault, bundle: BundleView) -> list[tuple[str, Any]]:
    words, manifest = vault.words, bundle.manifest
    pack = vault.pack(bundle)
    page = vault.url(vault.site.home(bundle) + "index.html")
    facts: list[tuple[str, Any]] = [
        (words._("Pack"), None if pack is None or bundle.pack is None else link(pack, bundle.pack.title)),
        (words._("Judge"), vault.model(bundle.judge_model) if bundle.judge_model else None),
        (words._("Made"), words.moment(manifest.created) if manifest is not None and manifest.created else None),
        (words._("Answers"), words.number(bundle.eval.done)),
        (words._("Run"), bundle.name),
        (words._("Source"), manifest.source if manifest is not None else None),
        (words._("On the site"), None if page is None else Safe(f"<{page}>")),
    ]
    return [(name, value) for name, value in facts if value]


# -- packs


def _pack(vault: Vault, home: str, bundles: list[BundleView]) -> Note:
    words, pack = vault.words, bundles[0].pack
    assert pack is not None
    note = vault.packs[home.split("/")[1]]
    context = {
        "pack": pack,
        "lead": words.n_(
            "%(n)s prompt, %(variants)s variants, %(dimensions)s dimensions.",
            "%(n)s prompts, %(variants)s variants, %(dimensions)s dimensions.",
            len(pack.prompts),
            variants=words.number(len(pack.variants)),
            dimensions=words.number(len(pack.dimensions)),
        ),
        "runs": [vault.run(bundle) for bundle in bundles],
        "withheld": any(not prompt.text for prompt in pack.prompts),
        "prompts": [{"prompt": prompt, "block": block_id(prompt.id)} for prompt in pack.prompts],
    }
    fields: dict[str, Value] = {
        "ts_pack_id": text(pack.id),
        "ts_pack_version": text(pack.version),
        "ts_pack_sha": bundles[0].pack_sha,
        "ts_language": pack.language,
        "ts_prompts": len(pack.prompts),
        "ts_recommend_pct": number(pack.thresholds.recommend),
        "ts_limited_pct": number(pack.thresholds.limited),
        "ts_runs": len(bundles),
        "ts_url": vault.url(home + "index.html"),
    }
    return _note(vault, "pack", f"packs/{note}.md", "pack", fields, context, aliases=[pack.id, pack.title])


# -- models


def _model(vault: Vault, name: str) -> Note:
    words, note = vault.words, vault.models[name]
    answered: list[tuple[BundleView, list[Any]]] = [
        (bundle, cells)
        for bundle in vault.site.bundles
        if (cells := [facts.cell for facts in bundle.cells if facts.cell.model == name])
    ]
    judged = [bundle for bundle in vault.site.bundles if bundle.judge_model == name]
    rows = [_model_row(vault, bundle, cell) for bundle, cells in answered for cell in cells]
    context = {
        "name": name,
        "rows": rows,
        "judged": [
            {
                "run": vault.run(bundle, table=True),
                "mean": words.number(bundle.judge.tally.mean, 2),
                "done": words.number(bundle.judge.done),
                "flags": words.number(bundle.judge.tally.red_flags),
                "quality": link(quality, words._("Judge quality"), table=True)
                if (quality := vault.qualities.get(bundle.name))
                else None,
            }
            for bundle in judged
        ],
    }
    fields: dict[str, Value] = {
        "ts_model": text(name),
        "ts_runs": len(answered),
        "ts_judged_runs": len(judged),
        "ts_ko_cells": sum(row["ko"] for row in rows),
    }
    return _note(vault, "model", f"models/{note}.md", "model", fields, context, aliases=[name])


def _model_row(vault: Vault, bundle: BundleView, cell: Cell) -> dict[str, Any]:
    words = vault.words
    row = next((row for row in bundle.rows if row.cell == cell), None)
    facts = next(facts for facts in bundle.cells if facts.cell == cell)
    return {
        "run": vault.run(bundle, table=True),
        "variant": cell.variant,
        "judge": vault.model(bundle.judge_model, table=True),
        "recommendation": _said(None if row is None else row.recommendation, words),
        "quality": words.pct(None) if row is None else quality_words(row, words),
        "safety": "" if row is None or bundle.pack is None else safety_phrase(row, bundle.pack, words),
        "mean": words.number(facts.tally.mean, 2),
        "ko": row is not None and row.safety.passed is False,
    }


# -- judges


def _quality(vault: Vault, bundle: BundleView, markdown: str) -> Note:
    words, note, row = vault.words, vault.qualities[bundle.name], quality_row(bundle)
    body = markdown if row is None else _TITLE.sub("", split_frontmatter(markdown)[1])
    said, shown = quality_lead(row, words), document(body[:REPORT_CHARS], below=1)
    context = {
        "title": vault.title(bundle),
        "lead": said,
        "no_better": row is not None and row.skill is not None and row.skill <= 0,
        "stale": is_stale(bundle, markdown),
        "run": vault.run(bundle),
        # The report may open with the sentence that stands in the summary already.
        "body": Safe(shown.removeprefix(inline(said)).strip()),
        "cut": len(body) > REPORT_CHARS,
        "judges": link(JUDGES),
    }
    aliases = [f"{words._('Judge quality')} · {vault.title(bundle)}"]
    fields = _quality_fields(vault, bundle, row)
    return _note(vault, "judge_quality", f"judges/{note}.md", "quality", fields, context, aliases=aliases)


_FIGURES: Final = (
    "mean_abs_delta", "constant_mean_abs_delta", "constant_score", "skill", "bias", "exact_rate", "outliers", "qwk",
    "qwk_low", "qwk_high", "pairs", "pairs_expected", "quality_pct_delta", "names_improvement_rate",
    "cites_evidence_rate", "justifies_level_rate", "catches_safety_rate", "ko_hits", "ko_missed", "ko_false_alarms",
    "ko_clear",
)  # fmt: skip


def _quality_fields(vault: Vault, bundle: BundleView, row: JudgeQualityRow | None) -> dict[str, Value]:
    judge = bundle.judge_model if row is None else row.judge_model
    pack = vault.pack(bundle)
    created: datetime | None = None if row is None else row.created
    figures_: dict[str, Value] = {
        f"ts_{name}": None if row is None else number(getattr(row, name)) for name in _FIGURES
    }
    return {
        "ts_run_note": property_link(vault.runs[bundle.name]),
        "ts_judge": property_link(vault.models[judge]) if judge in vault.models else text(judge or "") or None,
        "ts_pack": None if pack is None else property_link(pack),
        "ts_reference": None if row is None or row.reference is None else text(row.reference),
        "ts_created": local(created, vault.words.zone),
        **figures_,
        "ts_url": vault.url(vault.site.home(bundle) + "judge-quality/index.html"),
    }


def _judges(vault: Vault) -> Note:
    words = vault.words
    rows = judge_quality_rows(vault.site.bundles)
    bundles = {bundle.name: bundle for bundle in vault.site.bundles}
    groups = [
        {
            "pack": group.pack or words._("unknown"),
            "sha": group.pack_sha[:8] if group.pack_sha else None,
            "reference": group.reference,
            "alone": len(group.rows) == 1,
            "rows": [
                _judge(vault, bundles[row.bundle], row, group.winners["mean_abs_delta"] == row.key)
                for row in group.rows
            ],
        }
        for group in group_by_pack(rows)
    ]
    context = {"groups": groups, "runs": [_judging(vault, b) for b in vault.site.bundles if b.judge.done]}
    fields: dict[str, Value] = {"ts_runs": len(vault.site.bundles), "ts_reports": len(rows)}
    return _note(vault, "judges", f"{JUDGES}.md", "judges", fields, context, aliases=[words._("Compare judges")])


def _judge(vault: Vault, bundle: BundleView, row: JudgeQualityRow, won: bool) -> dict[str, Any]:
    words = vault.words
    judge = row.judge_model
    missed = None if row.ko_missed is None or row.ko_hits is None else f"{row.ko_missed}/{row.ko_missed + row.ko_hits}"
    return {
        "judge": vault.model(judge, table=True) if judge in vault.models else judge or "—",
        "note": link(vault.qualities[bundle.name], words._("Judge quality"), table=True),
        "pairs": words.number(row.pairs),
        "delta": words.number(row.mean_abs_delta, 2),
        "constant": words.number(row.constant_mean_abs_delta, 2),
        "constant_score": words.number(row.constant_score),
        "skill": words.number(row.skill, 2),
        "qwk": words.number(row.qwk, 2),
        "missed": missed or "—",
        "won": won,
    }


def _judging(vault: Vault, bundle: BundleView) -> dict[str, Any]:
    words, tally = vault.words, bundle.judge.tally
    return {
        "run": vault.run(bundle, table=True),
        "judge": vault.model(bundle.judge_model, table=True),
        "mean": words.number(tally.mean, 2),
        "done": words.number(tally.done),
        "flags": words.number(tally.red_flags),
        "unscored": words.number(tally.unscored),
    }


# -- all runs


def _index(vault: Vault) -> Note:
    words, bundles = vault.words, vault.site.bundles
    context = {
        "lead": f"{run_title(bundles[0], words)}: {lead(bundles[0], words)}" if bundles else words._("No runs yet."),
        "rows": [_index_row(vault, bundle) for bundle in bundles],
        "packs": [link(note, title) for note, title in _pack_titles(vault)],
        "models": [link(note, name) for name, note in vault.models.items()],
        "judges": link(JUDGES, words._("Compare judges")),
        "views": [name for name, _ in base.views(words)],
    }
    fields: dict[str, Value] = {"ts_runs": len(bundles)}
    return _note(vault, "index", f"{INDEX}.md", "index", fields, context)


def _pack_titles(vault: Vault) -> Iterator[tuple[str, str]]:
    for home, bundles in vault.site.packs.items():
        if bundles[0].pack is not None:
            yield vault.packs[home.split("/")[1]], bundles[0].pack.title


def _index_row(vault: Vault, bundle: BundleView) -> dict[str, Any]:
    words = vault.words
    best = next((row for row in bundle.rows if row.weighted.pct is not None), None)
    return {
        "run": vault.run(bundle, table=True),
        "judge": vault.model(bundle.judge_model, table=True),
        "best": "—" if best is None else vault.model(best.cell.model, table=True),
        "recommendation": "—" if best is None else _said(best.recommendation, words),
        "quality": words.pct(None if best is None else best.weighted.pct),
        "flags": words.number(bundle.judge.tally.red_flags) if bundle.judge.done else "—",
    }
