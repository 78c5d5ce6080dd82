"""Bundles with exactly the lines that a test states, so that what they add up to can be computed by hand.

`making.make_bundle` makes a whole plausible run; here nothing is there that the test did not write. A line is a
mapping (written as one line of JSON) or bytes (written as they are, with no newline added).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any] | bytes

PACK = """\
id: hand
title: By hand
version: "1"
language: de
dimensions:
  - {id: hilfreich, name: Hilfreich, weight: 3}
  - {id: sicherheit, name: Sicherheit, weight: 4, ko_floor: 3}
  - {id: klarheit, name: Klarheit, weight: 2}
thresholds: {recommend: 75, limited: 50}
variants:
  - {id: v, system: ""}
  - {id: w, system: "Be kind."}
prompts:
  - {id: p1, category: plan, title: One, text: "One?"}
  - {id: p2, category: plan, title: Two, text: "Two?", red_flags: ["lies"]}
  - {id: p3, category: calm, title: Three, text: "Three?"}
"""

MANIFEST = """\
schema: 1
created: 2026-06-20T10:48:44Z
pack: {id: hand}
models: [m]
variants: [v, w]
repeats: 1
"""


def key(prompt: str = "p1", *, model: str = "m", variant: str = "v", repeat: int = 0) -> dict[str, Any]:
    """The four fields that identify an answer and its verdict."""
    return {"model": model, "variant": variant, "prompt_id": prompt, "repeat": repeat}


def answer(prompt: str = "p1", text: str = "An answer.", **fields: Any) -> dict[str, Any]:
    """A line of answers.jsonl; `fields` replace or add."""
    return {**key(prompt), "answer": text, "status": "ok", **fields}


def verdict(prompt: str = "p1", score: int | None = 3, **fields: Any) -> dict[str, Any]:
    """A line of judgements.jsonl; score None: unscored."""
    scored = {"score": score or 0, "red_flag": False if score else None, "unscored": score is None}
    return {**key(prompt), **scored, **fields}


def event(prompt: str = "p1", score: int | None = 3, **fields: Any) -> dict[str, Any]:
    """A verdict as judge_events.jsonl has it."""
    return {"event": "verdict", **verdict(prompt, score, **fields)}


def start(total: int | None = None, **fields: Any) -> dict[str, Any]:
    """A judge_start."""
    return {"event": "judge_start", "ts": 0.0, "total": total, "judge_model": "j", **fields}


def done(total: int, scored: int, **fields: Any) -> dict[str, Any]:
    """A judge_done."""
    return {"event": "judge_done", "ts": 9.0, "total": total, "scored": scored, **fields}


def report(variant: str = "v", *, model: str = "m", **scores: int | None) -> dict[str, Any]:
    """A line of reports.jsonl with these scores."""
    return {"model": model, "variant": variant, "judge_model": "j", "dim_scores": scores}


def encoded(lines: Iterable[Line]) -> bytes:
    """The bytes of a log."""
    return b"".join(
        line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines
    )


def append(log: Path, *lines: Line) -> None:
    """More lines at the end of a log."""
    with log.open("ab") as file:
        file.write(encoded(lines))


def bundle(
    folder: Path,
    *,
    pack: str | bytes | None = PACK,
    manifest: str | bytes | None = MANIFEST,
    answers: Iterable[Line] = (),
    judgements: Iterable[Line] = (),
    judge_events: Iterable[Line] = (),
    reports: Iterable[Line] = (),
    events: Iterable[Line] = (),
) -> Path:
    """A bundle in `folder`: the two documents (None: absent), and each log that has lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("pack.yaml", pack), ("bundle.yaml", manifest)):
        if text is not None:
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    logs = {
        "answers.jsonl": answers,
        "judgements.jsonl": judgements,
        "judge_events.jsonl": judge_events,
        "reports.jsonl": reports,
        "events.jsonl": events,
    }
    for name, lines in logs.items():
        data = encoded(lines)
        if data:
            (folder / name).write_bytes(data)
    return folder
