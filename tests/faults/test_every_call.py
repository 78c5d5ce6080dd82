"""Every call to the file system fails once, for each command: with a full disk, a broken one, no permission, too many
open files, and with the process killed at that very moment.

Whatever the call was: what was measured before stays, a command that says "done" has done it, one that failed says
where and why, and the next one brings everything to where it would have been.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.faults import FOR_EVER, KILL, LONG, Commands, chosen, copy_of, leftovers
from tests.making import PACK, make_bundle, verdict, write_lines
from tests.standin import Brain, StandIn
from touchstone.bundle import open_bundle

ERRORS = {
    "disk full": (errno.ENOSPC, False),
    "disk broken once": (errno.EIO, True),
    "no permission": (errno.EACCES, False),
    "no permission once": (errno.EACCES, True),
    "read-only": (errno.EROFS, False),
    "too many open files once": (errno.EMFILE, True),
    "killed": (KILL, False),
}
"""Name to errno, and whether only one call fails."""
OFTEN = {"disk full": 1, "disk broken once": 1, "killed": 1}
"""How many calls fail in the short version."""
SMALL: dict[str, Any] = {**PACK, "variants": PACK["variants"][:1], "prompts": PACK["prompts"][:3]}
LOGS = ("answers.jsonl", "judgements.jsonl", "reports.jsonl")


@dataclass(frozen=True)
class Case:
    """A command, and what is there before."""

    words: tuple[str, ...]
    prepare: Callable[[Path], object]
    again: tuple[str, ...] | None = None
    """The next command, where it is another one."""


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
    "judge --restart": Case(
        ("judge", "--bundle", "runs/r", "--restart"), judged, again=("judge", "--bundle", "runs/r")
    ),
    "judge --repeat-judge": Case(("judge", "--bundle", "runs/r", "--repeat-judge", "2", "--sample", "2"), judged),
    "judge-meta export": Case(("judge-meta", "export", "runs/r"), judged),
    "judge-meta ingest": Case(("judge-meta", "ingest", "runs/r"), exported),
    "scorecard": Case(("scorecard", "runs/r"), judged),
    "merge": Case(("merge", "runs/r", "runs/s", "--into", "both"), two_runs),
    "build": Case(("build",), two_runs),
    "build, once more": Case(("build",), grown),
    "build --target obsidian": Case(("build", "--target", "obsidian", "--out", "vault"), two_runs),
}


def state(home: Path) -> dict[str, Any]:
    """What a command leaves, without times: the runs by what they are about, since their names tell the time."""
    found: dict[str, Any] = {}
    for path in sorted(home.rglob("*")):
        parts = list(path.relative_to(home).parts)
        if not path.is_file() or any(part.startswith(".") and part != ".nojekyll" for part in parts):
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
            found[name] = re.sub(r"(?m)^created: .*$", "created: -", path.read_text(encoding="utf-8"))
    return found


def whole_lines(home: Path) -> dict[str, list[bytes]]:
    """Log to its finished lines that hold something measured: no failed answer, no missing verdict."""
    logs = [path for name in LOGS for path in (home / "runs").glob(f"*/{name}")]
    found = {str(log): log.read_bytes().split(b"\n")[:-1] for log in logs}
    return {log: [line for line in lines if not _void(json.loads(line))] for log, lines in found.items()}


def _void(row: dict[str, Any]) -> bool:
    return bool(row.get("unscored") or row.get("status") == "error" or row.get("error"))


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    beside = tmp_path_factory.mktemp("faults")
    home = beside / "home"
    home.mkdir()
    with Commands(home, beside) as ready:
        yield ready


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn(Brain()) as ready:
        yield ready


@dataclass(frozen=True)
class Ready:
    """A case, with what it comes to where nothing fails."""

    before: Path
    after: dict[str, Any]
    calls: dict[int, int]
    """errno to how many calls it could come from."""


@pytest.fixture(scope="module")
def ready(commands: Commands, server: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ready]:
    known: dict[str, Ready] = {}

    def get(name: str) -> Ready:
        if name not in known:
            case, before = CASES[name], tmp_path_factory.mktemp("before") / "home"
            before.mkdir()
            config(before, server.port)
            case.prepare(before)
            copy_of(before, commands.home)
            commands.page.arm(commands.home, FOR_EVER, errno.EIO)
            commands(*case.words)
            known[name] = Ready(before, state(commands.home), commands.page.disarm())
        return known[name]

    return get


@pytest.mark.parametrize("error", ERRORS if LONG else OFTEN)
@pytest.mark.parametrize("name", CASES)
def test_the_call_fails(commands: Commands, ready: Callable[[str], Ready], name: str, error: str) -> None:
    case, expected = CASES[name], ready(name)
    number, once = ERRORS[error]
    for call in chosen(expected.calls[number], OFTEN.get(error, 1), f"{name} {error}"):
        home = copy_of(expected.before, commands.home)
        commands.page.arm(home, call, number, once=once, half=number in (errno.ENOSPC, KILL))
        done = commands(*case.words, code=None)
        commands.page.disarm()
        where = f"call {call} of {expected.calls[number]}"
        measured = whole_lines(home)
        if number == KILL:
            assert done.code in (0, -9), where
        else:
            assert done.code in (0, 1), f"{where}: exit {done.code}\n{done.err}"
            if done.code == 0:
                assert state(home) == expected.after, f"{where}: says that all is well\n{done.err}"
            else:
                assert "touchstone: " in done.err, where
        bundles = sorted(path for path in (home / "runs").glob("*") if not path.name.startswith("."))
        if name == "eval" and bundles:
            words: tuple[str, ...] = ("eval", "--resume", str(bundles[0]))
        else:
            words = case.again or case.words
        again = commands(*words, code=None)
        assert again.code == 0, f"{where}\n{done.err}\nand then\n{again.err}"
        assert state(home) == expected.after, f"{where}\n{done.err}\nand then\n{again.err}"
        for log, lines in whole_lines(home).items():
            assert set(measured.get(log, ())) <= set(lines) or name == "judge --restart", f"{where}: {log}"
        assert not [path for path in leftovers(home) if path.startswith(("public", "vault"))], where
        for bundle in bundles:
            if (bundle / "judge_events.jsonl").exists():
                view = open_bundle(bundle).refresh()
                assert view.judge.finished and not view.judge.aborted and view.judge.done == view.judge.total, where
