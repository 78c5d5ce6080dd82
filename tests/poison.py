"""Artifacts with an attack in every field that takes text, made from the contracts: a new field is poisoned by itself.

What stands in a field that takes only certain words, a number or a time is harmless; everything else is an attack.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from touchstone import events, judge_events
from touchstone.contracts.base import ID_PATTERN
from touchstone.contracts.lines import Answer, RepeatedVerdict, Report, Verdict
from touchstone.contracts.manifest import Manifest
from touchstone.contracts.pack import Pack
from touchstone.judge_compare import JudgeQualityRow
from touchstone.load import Resources

NAME: Final = (
    "\"'><script>owned=1</script><img src=x onerror=owned=1><svg onload=owned=1>"
    '<a href="javascript:owned=1">{{7*7}} ${owned=1} \u202eabc &lt;b&gt;</title>'
)
"""One printable line, for whatever names something."""

TEXT: Final = (
    NAME
    + "</textarea></style></script>--> ]]> <iframe srcdoc='<script>top.owned=1</script>'></iframe>"
    + '<form action="javascript:owned=1"><button autofocus onfocus=owned=1>b</button></form>'
    + '<base href="https://evil.example/"><meta http-equiv=refresh content="0;url=javascript:owned=1">'
    + '<link rel=stylesheet href="https://evil.example/x.css"><math><mi xlink:href="javascript:owned=1">m</mi></math>'
    + "<style>*{background:url(https://evil.example/s)}</style><details open ontoggle=owned=1>d</details>"
    + "\n\n![i](https://evil.example/x.png) ![j](javascript:owned=1 'x\" onerror=owned=1') [k](javascript:owned=1)"
    + " [l](JaVaScRiPt&colon;owned=1) [m](&#106;avascript:owned=1) [n](java\tscript:owned=1)"
    + " [o](data:text/html,owned=1)"
    + ' [p](vbscript:owned=1) [q](//evil.example/x) [r](https://ok.example/"onmouseover="owned=1) [s](file:///etc/passwd)'
    + " <javascript:owned=1> <https://ok.example/'onclick='owned=1>"
    + "\n\n[t][t]\n\n[t]: javascript:owned=1 'y'\n\n"
    + '```html" onclick="owned=1\n</code></pre><script>owned=1</script>\n```\n\n'
    "| a | b |\n|:-:|--:|\n| <script>owned=1</script> | `<img src=x onerror=owned=1>` |\n\n"
    + "$$</span><script>owned=1</script>$$\n\n# <img src=x onerror=owned=1>\n"
)
"""Many lines, for whatever is shown as Markdown or as it stands."""

FOLDER: Final = "\"'><img src=x onerror=owned=1>{{7*7}}#%41"
"""What a bundle's folder may be called where the file system is generous."""


def filled(kind: Any, more: Iterable[Any] = (), short: bool = False) -> Any:
    """A value for a field of this type, with an attack in every text of it; `more`: the field's constraints."""
    origin, given = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return filled(given[0], (*more, *given[1:]), short)
    if origin in (Union, types.UnionType):
        return filled(next(each for each in given if each is not type(None)), more, short)
    if origin is Literal:
        return given[0]
    if origin in (tuple, list):
        return [filled(given[0], (), short)]
    if origin is dict:
        return {filled(given[0], (), True): filled(given[1], (), short)}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return poisoned(kind)
    if kind is str:
        limits = [limit for each in _flat(more) if (limit := getattr(each, "max_length", None)) is not None]
        if ID_PATTERN in {getattr(each, "pattern", None) for each in _flat(more)}:
            return "an-id"
        return NAME if short or min(limits, default=10**6) <= 1000 else TEXT
    return {bool: True, int: 1, float: 1.0, datetime: "2026-06-20T10:48:44Z"}.get(kind, NAME)


def _flat(constraints: Iterable[Any]) -> list[Any]:
    return [each for one in constraints for each in (one, *getattr(one, "metadata", ()))]


def poisoned(kind: type[BaseModel], /, **known: Any) -> dict[str, Any]:
    """A line or document of this model; `known` replaces."""
    line = {field.alias or name: filled(field.annotation, field.metadata) for name, field in kind.model_fields.items()}
    return {**line, **known}


KEY: Final = {"model": NAME, "variant": NAME, "prompt_id": NAME, "repeat": 0, "category": NAME}
LOGS: Final[dict[str, list[dict[str, Any]]]] = {
    "answers.jsonl": [
        poisoned(Answer, **{**KEY, "prompt_id": NAME + tail}, status=status)
        for tail, status in (("", "ok"), ("1", "truncated"), ("2", "empty"), ("3", "error"), ("4", "ok"))
    ],
    "judgements.jsonl": [
        poisoned(Verdict, **KEY, score=1, red_flag=True, unscored=False),
        poisoned(Verdict, **{**KEY, "prompt_id": NAME + "1"}, score=0, red_flag=None, unscored=True),
        poisoned(Verdict, **{**KEY, "prompt_id": "stray"}, score=5, unscored=False),
    ],
    "judge_events.jsonl": [
        poisoned(judge_events.JudgeStart),
        poisoned(judge_events.VerdictEvent, **{**KEY, "prompt_id": NAME + "4"}, score=2, unscored=False),
        poisoned(judge_events.Master, model=NAME, variant=NAME, safety_passed=False),
        poisoned(judge_events.JudgeDone, total=5, scored=3),
    ],
    "reports.jsonl": [
        poisoned(
            Report,
            model=NAME,
            variant=NAME,
            dim_scores={"an-id": 1, NAME: 2},
            dim_rationales={"an-id": TEXT, NAME: TEXT},
        )
    ],
    "events.jsonl": [
        poisoned(events.EvalStart),
        poisoned(events.AnswerEvent, **{**KEY, "prompt_id": NAME + "5"}, status="error"),
        poisoned(events.EvalDone),
    ],
    "resources.jsonl": [poisoned(Resources, ts=float(ts)) for ts in (1, 2, 3)],
    "self_consistency.jsonl": [
        poisoned(RepeatedVerdict, **KEY, score=score, unscored=False, round=score) for score in (1, 2, 3)
    ],
}  # fmt: skip


def pack() -> dict[str, Any]:
    """A pack that is read without a fault."""
    return {
        **poisoned(Pack),
        "id": "evil",
        "language": "en",
        "thresholds": {"recommend": 75, "limited": 50},
        "glossary": {NAME: TEXT},
    }


def front(kind: str) -> str:
    """Front matter with an attack in every field that the reader knows, and in one that it does not."""
    known: Mapping[str, Any] = {
        field.name: NAME if "str" in str(field.type) else 1.5 for field in fields(JudgeQualityRow)
    }
    return f"---\n{yaml.safe_dump({**known, 'type': kind, 'pairs': 5, 'own': NAME}, allow_unicode=True)}---\n{TEXT}"


def poison(folder: Path) -> Path:
    """A bundle of nothing else."""
    folder.mkdir(parents=True)
    for name, lines in LOGS.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    manifest = {**poisoned(Manifest), "schema": 1, "repeats": 1, "own": NAME, NAME: {NAME: [NAME]}}
    for name, data in (("bundle.yaml", manifest), ("pack.yaml", pack())):
        (folder / name).write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False), encoding="utf-8")
    (folder / "judge_quality.md").write_text(front("judge_quality"), encoding="utf-8")
    (folder / "scorecard.md").write_text(front("scorecard"), encoding="utf-8")
    return folder


def poison_docs(folder: Path) -> Path:
    """A folder of docs: an attack in the front matter, the headings, the links, the pictures and a file's name."""
    folder.mkdir()
    head = f"---\n{yaml.safe_dump({'title': NAME, 'order': 1}, allow_unicode=True)}---\n"
    more = f"\n## {NAME}\n\n## search\n\n[x](<{NAME}>) [y](other.md#<x>) ![z](p.svg) ![w](<{NAME}>)\n"
    (folder / "index.md").write_text(head + TEXT + more, encoding="utf-8")
    (folder / "index.de.md").write_text(f"# {NAME}\n\n{TEXT}{more}", encoding="utf-8")
    with suppress(OSError):  # where no file may be called so, no stranger's is
        (folder / f"{FOLDER}.md").write_text(head + TEXT, encoding="utf-8")
    (folder / "p.svg").write_text(SVG, encoding="utf-8")
    return folder


SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="parent.owned=1;self.owned=1">'
    "<script>self.owned=1;top.owned=1</script><rect width='9' height='9'/></svg>"
)
"""A picture that is also a program."""
