"""Commands, what is there before, and what they come to where nothing fails."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.faults.faults import Commands
from tests.making import PACK, make_bundle, verdict, write_lines

SMALL: dict[str, Any] = {**PACK, "variants": PACK["variants"][:1], "prompts": PACK["prompts"][:3]}
LOGS = ("answers.jsonl", "judgements.jsonl", "reports.jsonl")


@dataclass(frozen=True)
class Case:
    """A command, and what is there before."""

    words: tuple[str, ...]
    prepare: Callable[[Path], object]
    leaves_out: bool = False
    """It goes on without what it cannot read, and says so."""


def config(home: Path, port: int) -> None:
    # In this notation the address is not taken for one of this machine, so the load is not sampled, which takes time.
    url = f"http://127.1:{port}/v1"
    fields = {
        "eval": {"pack": "small.yaml", "models": ["m1"], "endpoint": url, "max_tokens": 50},
        "judge": {"endpoint": url, "model": "judge-a", "max_tokens": 300},
    }
    (home / "touchstone.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    (home / "small.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")


def nothing(home: Path) -> None:
    """No run yet."""


def answered(home: Path) -> None:
    make_bundle(home / "runs" / "r", models=["m1"], pack=SMALL, judged=0, events=False)


def judged(home: Path) -> None:
    make_bundle(home / "runs" / "r", models=["m1"], pack=SMALL, judge="judge-a", events=False)


def partly(home: Path) -> None:
    """A judge run that was killed: one unscored verdict, one good one out of order, half a line."""
    answered(home)
    log = home / "runs" / "r" / "judgements.jsonl"
    rows = [json.loads(line) for line in (home / "runs" / "r" / "answers.jsonl").read_text().splitlines()]
    keys = [{name: row[name] for name in ("model", "variant", "prompt_id", "repeat")} for row in rows]
    write_lines(log, [verdict(keys[i], i, score, "r", "judge-a") for i, score in ((2, 4), (0, None))])
    with log.open("ab") as file:
        file.write(b'{"model": "m1", "vari')


def two_runs(home: Path) -> None:
    judged(home)
    make_bundle(home / "runs" / "s", models=["m2"], pack=SMALL, judge="judge-a", events=False)


def grown(home: Path) -> None:
    """A site of other runs than there are now."""
    two_runs(home)
    done = Commands.plain(home, "build")
    assert done.code == 0, done.err
    shutil.rmtree(home / "runs" / "s")
    make_bundle(home / "runs" / "t", models=["m3"], pack=SMALL, judge="judge-a", events=False)
    (home / "runs" / "r" / "reports.jsonl").unlink()


def exported(home: Path) -> None:
    judged(home)
    assert Commands.plain(home, "judge-meta", "export", "runs/r").code == 0
    form = home / "runs" / "r" / "judge_meta_response.yaml"
    filled = form.read_text().replace("reference: null", "reference: somebody", 1)
    form.write_text(re.sub(r"(?m)^(\s+(?:helpful|safe|score)): null", r"\1: 4", filled), encoding="utf-8")


CASES = {
    "eval": Case(("eval",), nothing),
    "judge": Case(("judge", "--bundle", "runs/r", "--events"), answered),
    "judge, once more": Case(("judge", "--bundle", "runs/r"), partly),
    "judge --into": Case(("judge", "--bundle", "runs/r", "--into", "second"), judged),
    "judge --restart": Case(("judge", "--bundle", "runs/r", "--restart"), judged),
    "judge --repeat-judge": Case(("judge", "--bundle", "runs/r", "--repeat-judge", "2", "--sample", "2"), judged),
    "judge-meta export": Case(("judge-meta", "export", "runs/r"), judged),
    "judge-meta ingest": Case(("judge-meta", "ingest", "runs/r"), exported),
    "scorecard": Case(("scorecard", "runs/r"), judged),
    "merge": Case(("merge", "runs/r", "runs/s", "--into", "both"), two_runs),
    "build": Case(("build",), two_runs, leaves_out=True),
    "build, once more": Case(("build",), grown, leaves_out=True),
    "build --target obsidian": Case(("build", "--target", "obsidian", "--out", "vault"), two_runs, leaves_out=True),
}


def state(home: Path) -> dict[str, Any]:
    """What a command leaves, without times: the runs by what they are about, since their names tell the time."""
    found: dict[str, Any] = {}
    for path in sorted(home.rglob("*")):
        parts = list(path.relative_to(home).parts)
        hidden = any(part.startswith(".") and part != ".nojekyll" for part in parts)
        if not path.is_file() or hidden or path.suffix == ".old":
            continue
        parts[1:2] = [re.sub(r"^\d{4}-\d\d-\d\d_\d{6}", "TIME", part) for part in parts[1:2]]
        name = "/".join(parts)
        if path.name in ("events.jsonl", "judge_events.jsonl", "resources.jsonl"):
            continue
        if parts[0] != "runs":
            found[name] = path.read_bytes()
        elif path.suffix == ".jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            found[name] = [{k: v for k, v in row.items() if k not in ("ts", "metrics")} for row in rows]
        else:
            found[name] = re.sub(r"(?m)^(created:|\| Made \|) .*$", r"\1 -", path.read_text(encoding="utf-8"))
    return found


def whole_lines(home: Path) -> dict[str, list[bytes]]:
    """Log to its finished lines that hold something measured: no failed answer, no missing verdict."""
    logs = [path for name in LOGS for path in (home / "runs").glob(f"*/{name}")]
    found = {str(log): log.read_bytes().split(b"\n")[:-1] for log in logs}
    return {log: [line for line in lines if not _void(json.loads(line))] for log, lines in found.items()}


def _void(row: dict[str, Any]) -> bool:
    return bool(row.get("unscored") or row.get("status") == "error" or row.get("error"))


@dataclass(frozen=True)
class Ready:
    """A case, with what it comes to where nothing fails."""

    before: Path
    after: dict[str, Any]
    calls: dict[int, int]
    """errno to how many calls it could come from; none without the library."""
    took_s: float

    @property
    def after_runs(self) -> dict[str, Any]:
        """What it comes to below runs/."""
        return {path: value for path, value in self.after.items() if path.startswith("runs")}


def next_words(case: Case, home: Path) -> tuple[str, ...]:
    """The command that a person types after one that failed."""
    bundles = sorted(path for path in (home / "runs").glob("*") if not path.name.startswith("."))
    return ("eval", "--resume", str(bundles[0])) if case.words == ("eval",) and bundles else case.words
