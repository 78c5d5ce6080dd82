"""The tables as data: data/<table>.json and data/<table>.csv, the same columns in both.

    runs         run, created, pack, pack_sha, judge_model, derived_from, answers, verdicts, expected, mean_score,
                 red_flags, unscored, finished
    scorecards   run, pack, judge_model, model, variant, recommendation, quality_pct, partial, safety_passed,
                 safety_reason, mean_score, verdicts, answers, unscored, red_flags
    histograms   run, judge_model, score_1 … score_5, unscored
    models       run, model, answers, measured, latency_p50_s, latency_p95_s, ttft_p50_s, prompt_tps, gen_tps,
                 truncated, empty, errors
    judges       the figures of each judge_quality.md

Rates are fractions 0..1, quality_pct is per cent, times are ISO 8601 in UTC; unknown is null, in CSV an empty field.
Column names stay; new columns come last.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from touchstone.judge_compare import judge_quality_rows
from touchstone.pages.compare import eval_of
from touchstone.site import File, Site

Row = dict[str, Any]
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def plan(site: Site) -> Iterator[File]:
    for name, rows in TABLES.items():
        yield File(f"data/{name}.json", partial(_json, site, rows))
        yield File(f"data/{name}.csv", partial(_csv, site, rows))


def _runs(site: Site) -> list[Row]:
    return [
        {
            "run": bundle.name,
            "created": _iso(bundle.manifest.created if bundle.manifest is not None else None),
            "pack": bundle.pack_id,
            "pack_sha": bundle.pack_sha,
            "judge_model": bundle.judge_model,
            "derived_from": bundle.manifest.derived_from if bundle.manifest is not None else None,
            "answers": bundle.eval.done,
            "verdicts": bundle.judge.done,
            "expected": bundle.judge.total,
            "mean_score": bundle.judge.tally.mean,
            "red_flags": bundle.judge.tally.red_flags,
            "unscored": bundle.judge.tally.unscored,
            "finished": bundle.judge.finished if bundle.judge.started else None,
        }
        for bundle in site.bundles
    ]


def _scorecards(site: Site) -> list[Row]:
    return [
        {
            "run": bundle.name,
            "pack": bundle.pack_id,
            "judge_model": bundle.judge_model,
            "model": row.cell.model,
            "variant": row.cell.variant,
            "recommendation": row.recommendation,
            "quality_pct": row.weighted.pct,
            "partial": row.weighted.partial,
            "safety_passed": row.safety.passed,
            "safety_reason": row.safety.reason,
            "mean_score": row.tally.mean,
            "verdicts": row.tally.done,
            "answers": row.expected,
            "unscored": row.tally.unscored,
            "red_flags": row.tally.flagged,
        }
        for bundle in site.bundles
        for row in bundle.rows
    ]


def _histograms(site: Site) -> list[Row]:
    return [
        {
            "run": bundle.name,
            "judge_model": bundle.judge_model,
            **{f"score_{score}": bundle.judge.tally.histogram[score] for score in range(1, 6)},
            "unscored": bundle.judge.tally.unscored,
        }
        for bundle in site.bundles
        if bundle.judge.done
    ]


def _models(site: Site) -> list[Row]:
    """A model's speed, once per eval however often it was judged."""
    names = {bundle.name for bundle in site.bundles}
    rows = []
    for bundle in site.bundles:
        source = eval_of(site, bundle)
        if source != bundle.name and source in names:
            continue
        for speed in bundle.eval.speeds():
            rows.append(
                {
                    "run": bundle.name,
                    "model": speed.model,
                    "answers": speed.answers,
                    "measured": speed.measured,
                    "latency_p50_s": speed.latency_p50,
                    "latency_p95_s": speed.latency_p95,
                    "ttft_p50_s": speed.ttft_p50,
                    "prompt_tps": speed.prompt_tps,
                    "gen_tps": speed.gen_tps,
                    "truncated": speed.truncated,
                    "empty": speed.empty,
                    "errors": speed.errors,
                }
            )
    return rows


def _judges(site: Site) -> list[Row]:
    return [asdict(row) for row in judge_quality_rows(site.bundles)]


TABLES: Final[dict[str, Callable[[Site], list[Row]]]] = {
    "runs": _runs,
    "scorecards": _scorecards,
    "histograms": _histograms,
    "models": _models,
    "judges": _judges,
}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(value: Any) -> Any:
    """No NaN, no infinity, no negative zero; floats short enough to read."""
    if isinstance(value, float):
        return round(value, 6) + 0.0 if math.isfinite(value) else None
    return value


def _json(site: Site, rows: Callable[[Site], list[Row]]) -> bytes:
    data = [{name: _plain(value) for name, value in row.items()} for row in rows(site)]
    return (json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode("utf-8", "replace")


def _csv(site: Site, rows: Callable[[Site], list[Row]]) -> bytes:
    data = rows(site)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if data:
        writer.writerow(data[0])
    for row in data:
        writer.writerow([_cell(value) for value in row.values()])
    return out.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it; numbers stay numbers."""
    value = _plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = value.replace("\0", "\ufffd")
        return f"'{value}" if value.startswith(_FORMULA) else value
    return value
