"""The tables as data: data/<table>.json and data/<table>.csv, the same columns in both; no texts of answers or reasons.

    runs         run, created, pack, pack_sha, judge_model, derived_from, answers, verdicts, expected, mean_score,
                 red_flags, unscored, finished
    scorecards   run, pack, judge_model, model, variant, recommendation, quality_pct, partial, safety_passed,
                 safety_reason, mean_score, verdicts, answers, unscored, red_flags             (one row a cell)
    histograms   run, judge_model, score_1, score_2, score_3, score_4, score_5, unscored       (verdicts of a run)
    models       run, model, answers, measured, latency_p50_s, latency_p95_s, ttft_p50_s, ttft_p95_s, prompt_tps,
                 gen_tps, load_s, truncated, empty, errors, peak_ram_bytes, os, cpu, gpu, ram_bytes
                                                  (one row a model and eval, however often the eval was judged)
    judges       bundle, judge_model, pack, pack_sha, reference, judge_prompt, inputs_sha, created, and the figures of
                 judge_quality.md under their own names                                        (one row a file)

Rates are fractions 0..1, quality_pct is per cent, *_s are seconds, *_tps tokens a second, times are ISO 8601 in UTC.
Unknown is null, in CSV an empty field; true and false are written so. Recommendations are the wire values (Ja, Mit
Einschränkung, Nein). JSON is a list of objects with sorted keys; CSV (UTF-8, RFC 4180) has a head line, also without
rows. Names of columns stay; new ones come last.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from touchstone.jsonsource import clean_text
from touchstone.judge_compare import JudgeQualityRow, judge_quality_rows
from touchstone.pages.lineage import eval_names, one_per_eval
from touchstone.site import File, Site

Row = Sequence[Any]
"""Values in the order of the table's columns."""

_FORMULA: Final = re.compile(r"""(^|[;\t\r\n])(?=(?:[^\S\t\r\n]|")*[=+\-@＝＋－＠])|^(?=[\t\r\n])""")
"""Where a spreadsheet may take text for a formula; where the comma is the decimal mark, a semicolon begins a cell."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns, and its rows from the site."""

    columns: tuple[str, ...]
    rows: Callable[[Site], Iterator[Row]]


def plan(site: Site) -> Iterator[File]:
    for name, table in TABLES.items():
        yield File(f"data/{name}.json", partial(_json, site, table))
        yield File(f"data/{name}.csv", partial(_csv, site, table))


# -- tables


def _runs(site: Site) -> Iterator[Row]:
    for bundle in site.bundles:
        manifest, judge = bundle.manifest, bundle.judge
        yield (
            bundle.name,
            manifest.created if manifest is not None else None,
            bundle.pack_id,
            bundle.pack_sha,
            bundle.judge_model,
            manifest.derived_from if manifest is not None else None,
            bundle.eval.done,
            judge.done,
            judge.total,
            judge.tally.mean,
            judge.tally.red_flags,
            judge.tally.unscored,
            judge.finished if judge.started else None,
        )


def _scorecards(site: Site) -> Iterator[Row]:
    for bundle in site.bundles:
        for row in bundle.rows:
            yield (
                bundle.name,
                bundle.pack_id,
                bundle.judge_model,
                row.cell.model,
                row.cell.variant,
                row.recommendation,
                row.weighted.pct,
                row.weighted.partial,
                row.safety.passed,
                row.safety.reason,
                row.tally.mean,
                row.tally.done,
                row.expected,
                row.tally.unscored,
                row.tally.flagged,
            )


def _histograms(site: Site) -> Iterator[Row]:
    for bundle in site.bundles:
        tally = bundle.judge.tally
        if tally.done:
            yield (bundle.name, bundle.judge_model, *tally.histogram[1:6], tally.unscored)


def _models(site: Site) -> Iterator[Row]:
    for name, bundle in one_per_eval(site.bundles, eval_names(site.bundles)):
        manifest = bundle.manifest
        host = manifest.host if manifest is not None else None
        machine = (None,) * 4 if host is None else (host.os, host.cpu, host.gpu, host.ram_bytes)
        for speed in bundle.eval.speeds():
            yield (
                name,
                speed.model,
                speed.answers,
                speed.measured,
                speed.latency_p50,
                speed.latency_p95,
                speed.ttft_p50,
                speed.ttft_p95,
                speed.prompt_tps,
                speed.gen_tps,
                speed.load_s,
                speed.truncated,
                speed.empty,
                speed.errors,
                manifest.peak_ram_bytes if manifest is not None else None,
                *machine,
            )


_JUDGE_COLUMNS: Final = tuple(field.name for field in fields(JudgeQualityRow))


def _judges(site: Site) -> Iterator[Row]:
    for row in judge_quality_rows(site.bundles):
        yield [getattr(row, name) for name in _JUDGE_COLUMNS]


def _named(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TABLES: Final = {
    "runs": Table(
        _named(
            "run created pack pack_sha judge_model derived_from answers verdicts expected mean_score red_flags"
            " unscored finished"
        ),
        _runs,
    ),
    "scorecards": Table(
        _named(
            "run pack judge_model model variant recommendation quality_pct partial safety_passed safety_reason"
            " mean_score verdicts answers unscored red_flags"
        ),
        _scorecards,
    ),
    "histograms": Table(_named("run judge_model score_1 score_2 score_3 score_4 score_5 unscored"), _histograms),
    "models": Table(
        _named(
            "run model answers measured latency_p50_s latency_p95_s ttft_p50_s ttft_p95_s prompt_tps gen_tps load_s"
            " truncated empty errors peak_ram_bytes os cpu gpu ram_bytes"
        ),
        _models,
    ),
    "judges": Table(_JUDGE_COLUMNS, _judges),
}


# -- formats


def _plain(value: Any) -> Any:
    """As JSON knows it: no NaN, no infinity, no negative zero, floats short enough to read, times as text."""
    match value:
        case float():
            return round(value, 6) + 0.0 if math.isfinite(value) else None
        case datetime():
            return iso(value)
        case str():
            return clean_text(value)
        case _:
            return value


def iso(moment: datetime) -> str | None:
    """ISO 8601 in UTC, to the second; None for what is no time in UTC."""
    try:
        return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    except (ValueError, OverflowError):
        # The year 1 east of Greenwich is the year 0 in UTC.
        return None


def _json(site: Site, table: Table) -> bytes:
    data = [dict(zip(table.columns, map(_plain, row), strict=True)) for row in table.rows(site)]
    text = json.dumps(data, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)
    return f"{text}\n".encode()


def _csv(site: Site, table: Table) -> bytes:
    out = io.StringIO()
    # RFC 4180; and only characters of the line's end are quoted for sure, a lone \r among them.
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(table.columns)
    for row in table.rows(site):
        writer.writerow([_cell(_plain(value)) for value in row])
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before that; numbers stay numbers."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return _FORMULA.sub(r"\1'", value)
        case _:
            return value
