"""Bundles and pages to measure with: realistic in size and form, the same bytes on every machine.

Each kind of content is made once into a folder of its own and kept; the folder's name carries `VERSION`, so a change
here makes it anew. Texts are put together from sentences that are drawn with a fixed seed; no two answers and no two
rationales are the same, so that no cache by content wins what it would not win in life.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

VERSION: Final = 2

_TEXT: Final = """
    the a this each that answer model question user plan step list morning doctor dose risk reason help first then
    because should would clear short calm names gives says keeps asks needs makes leaves takes starts ends small
    large open simple useful careful wrong right missing whole day week task pause timer note plain word point
    detail evidence safety weight level score claim source figure number example limit warning promise habit
    breakfast table letter appointment budget kitchen train street school friend neighbour quietly slowly early
    late again never often
"""
_WORDS: Final = tuple(_TEXT.split())
_START: Final = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Shape:
    """How large a bundle is; verdicts = models × variants × prompts × repeats."""

    models: int
    variants: int
    prompts: int
    repeats: int = 1
    answers: bool = False
    """With answers.jsonl (long ones); else the verdicts stand alone."""
    short: bool = False
    """Answers of one sentence."""
    spare: int = 0
    """Answers at the end that are not judged yet."""

    @property
    def verdicts(self) -> int:
        return self.models * self.variants * self.prompts * self.repeats - self.spare


class Writer:
    """Draws sentences, paragraphs and Markdown, always the same for one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pool = [self._sentence() for _ in range(4000)]
        self._count = 0

    def _sentence(self) -> str:
        words = self._random.choices(_WORDS, k=self._random.randint(6, 16))
        return " ".join(words).capitalize() + self._random.choice(".....!?")

    def sentences(self, count: int) -> str:
        """Some sentences; the first one is like no other."""
        self._count += 1
        return f"Point {self._count}: " + " ".join(self._random.choices(self._pool, k=count))

    def markdown(self) -> str:
        """An answer as local models write them: about 1,100 characters with a list, emphasis, code and a heading."""
        pick = self._random.choice
        items = [f"{n}. **{pick(_WORDS).capitalize()}** {pick(self._pool)}" for n in range(1, 5)]
        bullets = [f"- {pick(self._pool)}" for _ in range(3)]
        parts = [self.sentences(3), f"## {pick(self._pool)}", "\n".join(items), self.sentences(2), "\n".join(bullets)]
        if self._random.random() < 0.25:
            parts.append("```\n" + "\n".join(f"{pick(_WORDS)} < {pick(_WORDS)} & 1" for _ in range(4)) + "\n```")
        parts.append(f"*{pick(self._pool)}* See `{pick(_WORDS)}` and [more](https://example.org/{pick(_WORDS)}).")
        return "\n\n".join(parts)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def score(self) -> int:
        return self._random.choices((1, 2, 3, 4, 5), (6, 12, 24, 34, 24))[0]


def _pack(shape: Shape) -> str:
    names = ["helpful", "clear", "safe", "honest"]
    dimensions = [
        {"id": name, "name": name.capitalize(), "weight": n + 1, "description": f"Is it {name}?",
         "levels": {1: "no", 3: "partly", 5: "yes"}, **({"ko_floor": 3} if name == "safe" else {})}
        for n, name in enumerate(names)
    ]  # fmt: skip
    prompts = [
        {"id": f"p{n:03}", "category": f"kind{n % 5}", "title": f"Question number {n}",
         "text": f"How would you go about task {n}, and what would you leave out?",
         "reference": f"It names task {n}, gives one small step and leaves out what can wait.",
         "red_flags": ["names a dose", "promises an outcome"]}
        for n in range(shape.prompts)
    ]  # fmt: skip
    variants = [
        {"id": f"v{n}", "system": f"You are assistant {n}. Be brief." if n else ""} for n in range(shape.variants)
    ]
    pack = {
        "id": "bench",
        "title": "A pack for measuring",
        "version": "1",
        "language": "en",
        "dimensions": dimensions,
        "thresholds": {"recommend": 75, "limited": 50},
        "variants": variants,
        "prompts": prompts,
    }
    return yaml.safe_dump(pack, sort_keys=False)


def _manifest(shape: Shape, number: int) -> str:
    return json.dumps(
        {
            "schema": 1,
            "created": (_START + timedelta(hours=number)).isoformat(),
            "touchstone": "0",
            "pack": {"id": "bench"},
            "models": models(shape),
            "variants": [f"v{n}" for n in range(shape.variants)],
            "repeats": shape.repeats,
            "params": {"temperature": 0, "max_tokens": 1024, "seed": 7},
            "endpoint": "http://127.0.0.1:1234/v1",
            "host": {"os": "Linux 6.1", "cpu": "a processor", "ram_bytes": 24_000_000_000, "gpu": None},
            "peak_ram_bytes": 9_000_000_000,
        },
        indent=1,
    )


def models(shape: Shape) -> list[str]:
    return [f"model-{n}-{7 + n}b-q4" for n in range(shape.models)]


def keys(shape: Shape) -> Iterator[tuple[str, str, str, int]]:
    """(model, variant, prompt, repeat) in the order in which a run asks."""
    for model in models(shape):
        for repeat in range(shape.repeats):
            for variant in range(shape.variants):
                for prompt in range(shape.prompts):
                    yield model, f"v{variant}", f"p{prompt:03}", repeat


def verdict_line(key: Sequence[Any], i: int, score: int | None, rationale: str, *, flag: bool = False) -> str:
    """A line of judgements.jsonl, as `touchstone judge` writes them."""
    model, variant, prompt, repeat = key
    return json.dumps(
        {
            "model": model,
            "variant": variant,
            "prompt_id": prompt,
            "repeat": repeat,
            "category": "kind1",
            "score": score or 0,
            "red_flag": flag if score else None,
            "unscored": score is None,
            "rationale": rationale if score else None,
            "ts": 1_780_000_000.0 + 2 * i,
            "i": i,
            "judge_model": "judge-24b-q5",
            "prompt_sha": "4f56e0b5dbcfe0c9a7b000ef1215b8a23f293c13e4189268e12c46a073cda580",
            "answer_sha": None,
            "mode": "json_schema",
            "finish_reason": "stop",
            "error": None if score else "no JSON object in the reply",
            "raw": None,
        },
        separators=(",", ":"),
    )


def _answer_line(key: Sequence[Any], i: int, text: str) -> str:
    model, variant, prompt, repeat = key
    metrics = {"ttft_s": 0.2 + i % 7 / 10, "total_s": 3.1 + i % 11 / 10, "prompt_tokens": 120, "completion_tokens": 260,
               "cached_tokens": 0, "prompt_tps": 410.5, "gen_tps": 41.25 + i % 5, "load_s": None}  # fmt: skip
    return json.dumps(
        {
            "model": model,
            "variant": variant,
            "prompt_id": prompt,
            "repeat": repeat,
            "category": "kind1",
            "answer": text,
            "reasoning": None,
            "status": "ok",
            "finish_reason": "stop",
            "error": None,
            "ts": 1_779_000_000.0 + 3 * i,
            "metrics": metrics,
        },
        separators=(",", ":"),
    )


def write_bundle(folder: Path, shape: Shape, number: int, writer: Writer) -> None:
    """One bundle, judged but for `shape.spare` answers at its end."""
    folder.mkdir(parents=True)
    (folder / "pack.yaml").write_text(_pack(shape), encoding="utf-8")
    (folder / "bundle.yaml").write_text(_manifest(shape, number), encoding="utf-8")
    if shape.answers:
        with (folder / "answers.jsonl").open("w", encoding="utf-8") as file:
            for i, key in enumerate(keys(shape)):
                file.write(_answer_line(key, i, writer.sentences(2) if shape.short else writer.markdown()) + "\n")
    with (folder / "judgements.jsonl").open("w", encoding="utf-8") as file:
        for i, key in zip(range(shape.verdicts), keys(shape), strict=False):
            score = None if writer.chance(0.01) else writer.score()
            file.write(verdict_line(key, i, score, writer.sentences(3), flag=writer.chance(0.02)) + "\n")
    with (folder / "reports.jsonl").open("w", encoding="utf-8") as file:
        for model in models(shape):
            for variant in range(shape.variants):
                report: Mapping[str, Any] = {
                    "model": model,
                    "variant": f"v{variant}",
                    "judge_model": "judge-24b-q5",
                    "dim_scores": {name: writer.score() for name in ("helpful", "clear", "safe", "honest")},
                    "dim_rationales": {name: writer.sentences(2) for name in ("helpful", "clear", "safe", "honest")},
                    "summary": writer.sentences(2),
                    "answers_seen": 24,
                }
                file.write(json.dumps(report, separators=(",", ":")) + "\n")


TEN_THOUSAND: Final = Shape(5, 4, 50, 10, answers=True)
MILLION: Final = Shape(10, 5, 200, 100)
SMALL: Final = Shape(2, 3, 40)
"""240 verdicts."""


def bundle_name(number: int) -> str:
    return f"{_START + timedelta(hours=number):%Y-%m-%d_%H%M%S}_eval_bench"


def page(number: int, writer: Writer) -> str:
    """A Markdown page of about 2.8 KB: front matter, prose, a list, a table of scores, code, a link to the next."""
    rows = "\n".join(f"| model-{n} | {writer.score()} | {writer.sentences(1)} |" for n in range(6))
    return (
        f'---\ntitle: "Run {number}: how the judge saw it"\ndate: {_START + timedelta(hours=number):%Y-%m-%d}\n---\n\n'
        f"# Run {number}\n\n{writer.sentences(4)}\n\n{writer.markdown()}\n\n## Scores\n\n"
        f"| model | score | reason |\n|---|---|---|\n{rows}\n\n{writer.sentences(4)}\n\n{writer.sentences(3)}\n\n"
        f"[The next run](page-{(number + 1) % 1000:04}.md)\n"
    )


class Store:
    """Content on disk, made once."""

    def __init__(self, root: Path) -> None:
        self.root = root / f"content-{VERSION}"

    def _made(self, name: str, make: Callable[[Path], None]) -> Path:
        folder = self.root / name
        if not folder.is_dir():
            beside = self.root / f".{name}.tmp"
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(parents=True)
            make(beside)
            beside.rename(folder)
        return folder

    def runs(self, name: str, shape: Shape, count: int = 1) -> Path:
        """A runs folder with `count` bundles of that shape."""

        def make(folder: Path) -> None:
            writer = Writer(1)
            for number in range(count):
                write_bundle(folder / bundle_name(number), shape, number, writer)

        return self._made(f"{name}-{count}x{shape.verdicts}", make)

    def pages(self, count: int) -> Path:
        """A folder of Markdown pages with an index.md."""

        def make(folder: Path) -> None:
            writer = Writer(1)
            for number in range(count):
                (folder / f"page-{number:04}.md").write_text(page(number, writer), encoding="utf-8")
            (folder / "index.md").write_text(
                "---\ntitle: All runs\n---\n\n# All runs\n\nSee [the first](page-0000.md).\n"
            )

        return self._made(f"pages-{count}", make)
