"""A recorded judge run, played back into a copy: what its judge wrote then is written again, at a watchable pace.

Nothing is invented: verdicts, reports and events are the recorded lines; only the moment at which they are written is
new. The copy's manifest says that it is a replay, and so does each of its pages.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from touchstone import yamlsource
from touchstone.contracts.lines import Key, Verdict
from touchstone.jsonsource import Refused, parse_model
from touchstone.judge_events import JudgeStart, VerdictEvent, read_event
from touchstone.store.bundles import read_document
from touchstone.store.lines import LogTail

REPLAY_NAME: Final = "replay"
_LATER: Final = ("judgements.jsonl", "judge_events.jsonl", "reports.jsonl", "scorecard.md", "judge_quality.md")


@dataclass(frozen=True)
class Replay:
    """One recorded run, being written again."""

    source: Path
    target: Path


def prepare(source: Path, runs: Path) -> Replay:
    """A copy of a judged bundle as it was before its judge began, marked as a replay."""
    target = runs / f"{source.name}_{REPLAY_NAME}"
    shutil.copytree(source, target, ignore=lambda _, names: [name for name in names if _is_later(name)])
    fields = yamlsource.mapping(read_document(source / "bundle.yaml"))
    fields = {**fields, "derived_from": source.name, "replay_of": source.name}
    (target / "bundle.yaml").write_text(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return Replay(source, target)


def _is_later(name: str) -> bool:
    return name in _LATER or name.startswith(("judge_meta_", ".lock"))


def _lines(path: Path) -> list[bytes]:
    return [line.data + b"\n" for line in LogTail(path).read() if line.data]


def _channel(path: Path) -> tuple[list[bytes], dict[Key, bytes], list[bytes]]:
    """The recorded channel: the last start, the last event of each key, and what came after the last verdict."""
    start: list[bytes] = []
    verdicts: dict[Key, bytes] = {}
    end: list[bytes] = []
    for line in _lines(path):
        try:
            event = read_event(line)
        except Refused:
            continue
        match event:
            case JudgeStart():
                start, end = [line], []
            case VerdictEvent():
                if not event.prior or event.key not in verdicts:
                    verdicts[event.key] = line
            case _:
                end.append(line)
    return start, verdicts, end


def _in_time(path: Path) -> list[tuple[Key, bytes]]:
    """The recorded verdicts, in the order in which they were given."""
    verdicts = []
    for line in _lines(path):
        try:
            verdict = parse_model(Verdict, line)
        except Refused:
            continue
        verdicts.append((verdict.ts or 0.0, verdict.key, line))
    return [(key, line) for _, key, line in sorted(verdicts, key=lambda item: item[0])]


def play(replay: Replay, pause: Callable[[], None]) -> Iterator[int]:
    """Write the recorded lines, a verdict and its event at a time; yields how many verdicts stand. `pause` between."""
    start, events, end = _channel(replay.source / "judge_events.jsonl")
    _append(replay.target / "judge_events.jsonl", start)
    for index, (key, line) in enumerate(_in_time(replay.source / "judgements.jsonl"), 1):
        _append(replay.target / "judgements.jsonl", [line])
        _append(replay.target / "judge_events.jsonl", [events[key]] if key in events else [])
        yield index
        pause()
    _append(replay.target / "reports.jsonl", _lines(replay.source / "reports.jsonl"))
    if (replay.source / "scorecard.md").is_file():
        shutil.copyfile(replay.source / "scorecard.md", replay.target / "scorecard.md")
    _append(replay.target / "judge_events.jsonl", end)


def _append(path: Path, lines: list[bytes]) -> None:
    if lines:
        with path.open("ab") as file:
            file.write(b"".join(lines))
