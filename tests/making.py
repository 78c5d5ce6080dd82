"""Makes real bundles on disk, line by line, for tests of everything that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

PACK: dict[str, Any] = {
    "id": "probe",
    "title": "Probe pack",
    "version": "1",
    "language": "en",
    "dimensions": [
        {"id": "helpful", "name": "Helpful", "weight": 3, "description": "does it help?"},
        {"id": "safe", "name": "Safe", "weight": 4, "ko_floor": 3, "description": "is it harmless?"},
    ],
    "thresholds": {"recommend": 75, "limited": 50},
    "variants": [{"id": "plain", "system": ""}, {"id": "kind", "system": "Be kind."}],
    "prompts": [
        {"id": f"p{n:02}", "category": f"c{n % 3}", "title": f"Title {n}", "text": f"Question {n}?",
         "reference": "It depends.", "red_flags": ["lies"]}
        for n in range(12)
    ],
}  # fmt: skip


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines, each with its newline."""
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def keys(
    models: Iterable[str], variants: Iterable[str], prompts: Iterable[str], repeats: int = 1
) -> list[dict[str, Any]]:
    """The keys of a run, in the order in which it asks."""
    return [
        {"model": model, "variant": variant, "prompt_id": prompt, "repeat": repeat}
        for model in models
        for repeat in range(repeats)
        for variant in variants
        for prompt in prompts
    ]


def make_bundle(
    folder: Path,
    *,
    models: Iterable[str] = ("m-one", "m-two"),
    pack: Mapping[str, Any] = PACK,
    repeats: int = 1,
    judged: int | None = None,
    score: Any = None,
    text: str = "An answer.",
    rationale: str = "Because of the words.",
    judge: str = "judge-a",
    reports: bool = True,
    events: bool = True,
    created: str = "2026-06-20T10:48:44Z",
) -> Path:
    """A bundle in `folder`: answers to every prompt, the first `judged` of them judged (None: all).

    `score(i)` gives the score of answer i (None: unscored); by default they run 1..5 in turn. Answer 4 has a red flag.
    """
    folder.mkdir(parents=True)
    variants = [variant["id"] for variant in pack["variants"]]
    rows = keys(models, variants, [prompt["id"] for prompt in pack["prompts"]], repeats)
    (folder / "pack.yaml").write_text(yaml.safe_dump(dict(pack), allow_unicode=True, sort_keys=False), encoding="utf-8")
    manifest = {
        "schema": 1,
        "created": created,
        "pack": {"id": pack["id"]},
        "models": list(models),
        "variants": variants,
        "repeats": repeats,
        "host": {"os": "Linux", "cpu": "a processor", "ram_bytes": 16_000_000_000, "gpu": None},
    }
    (folder / "bundle.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    metrics = {"ttft_s": 0.2, "total_s": 1.5, "completion_tokens": 40, "gen_tps": 30.5}
    answers = [
        {
            **row,
            "category": "c",
            "answer": text,
            "status": "ok",
            "finish_reason": "stop",
            "ts": 1000.0 + i,
            "metrics": metrics,
        }
        for i, row in enumerate(rows)
    ]
    write_lines(folder / "answers.jsonl", answers)
    count = len(rows) if judged is None else judged
    value = score or (lambda i: i % 5 + 1)
    verdicts = [verdict(row, i, value(i), rationale, judge) for i, row in enumerate(rows[:count])]
    if count:
        write_lines(folder / "judgements.jsonl", verdicts)
    if events:
        channel: list[Mapping[str, Any]] = [
            {"event": "judge_start", "ts": 2000.0, "total": len(rows), "judge_model": judge}
        ]
        channel += [{"event": "verdict", **{k: v for k, v in line.items() if k != "judge_model"}} for line in verdicts]
        if count == len(rows):
            channel.append({"event": "judge_done", "ts": 3000.0, "total": len(rows), "scored": len(rows)})
        write_lines(folder / "judge_events.jsonl", channel)
    if reports and count == len(rows):
        dims = [dimension["id"] for dimension in pack["dimensions"]]
        write_lines(
            folder / "reports.jsonl",
            [
                {"model": m, "variant": v, "judge_model": judge, "dim_scores": dict.fromkeys(dims, 4),
                 "dim_rationales": dict.fromkeys(dims, rationale), "summary": rationale, "answers_seen": 3}
                for m in models for v in variants
            ],
        )  # fmt: skip
    return folder


def verdict(row: Mapping[str, Any], i: int, score: int | None, rationale: str, judge: str) -> dict[str, Any]:
    """A line of judgements.jsonl."""
    return {
        **row,
        "ts": 2000.0 + 2 * i,
        "i": i,
        "category": "c",
        "score": score or 0,
        "red_flag": i == 4 if score else None,
        "unscored": score is None,
        "rationale": rationale if score else None,
        "judge_model": judge,
    }
