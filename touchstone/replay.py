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
    fields = yaml.safe_load(read_document(source / "bundle.yaml") or b"{}") or {}
    fields = {**fields, "derived_from": source.name, "replay_of": source.name}
    (target / "bundle.yaml").write_text(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return Replay(source, target)


def _is_later(name: str) -> bool:
    return name in _LATER or name.startswith(("judge_meta_", ".lock"))


def _lines(path: Path) -> list[bytes]:
    return [line.data + b"\n" for line in LogTail(path).read() if line.data]


def play(replay: Replay, pause: Callable[[], None]) -> Iterator[int]:
    """Write the recorded lines, a verdict and its event at a time; yields how many verdicts stand. `pause` between."""
    events = _lines(replay.source / "judge_events.jsonl")
    verdicts = _lines(replay.source / "judgements.jsonl")
    start = [line for line in events if b'"judge_start"' in line][-1:]
    fresh = [line for line in events if b'"event":"verdict"' in line and b'"prior":true' not in line]
    end = events[max((i for i, line in enumerate(events) if b'"judge_start"' in line), default=0) :]
    end = [line for line in end if b'"event":"master"' in line or b'"event":"judge_done"' in line]
    _append(replay.target / "judge_events.jsonl", start)
    for index, line in enumerate(verdicts):
        _append(replay.target / "judgements.jsonl", [line])
        _append(replay.target / "judge_events.jsonl", fresh[index : index + 1])
        yield index + 1
        pause()
    _append(replay.target / "reports.jsonl", _lines(replay.source / "reports.jsonl"))
    if (replay.source / "scorecard.md").is_file():
        shutil.copyfile(replay.source / "scorecard.md", replay.target / "scorecard.md")
    _append(replay.target / "judge_events.jsonl", end)


def _append(path: Path, lines: list[bytes]) -> None:
    if lines:
        with path.open("ab") as file:
            file.write(b"".join(lines))
