"""Whatever happened to the runs, the site is the one that a clean build makes, byte for byte."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders import PACK, answer, append, bundle, event, report, start, verdict
from touchstone import build as building
from touchstone.build import Builder, build
from touchstone.options import Options
from touchstone.store.bundles import LOGS

QUALITY = "---\ntype: judge_quality\nmean_abs_delta: 0.{digit}\n---\nThe judge.\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class World:
    """Runs that change at random, and a site that follows them."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.random, self.made = home, random.Random(seed), 0
        self.templates = home / "templates"
        self.templates.mkdir()
        for _ in range(2):
            self.add()
        self.lang: tuple[str, ...] = ("en", "de")
        self.builder = Builder(self.options())
        self.builder.update()

    def options(self, **more: Any) -> Options:
        given = {"runs": self.home / "runs", "out": self.home / "out", "state_home": self.home, "langs": self.lang}
        return Options(**{**given, "base_url": "https://x.example/", "templates": self.templates, **more})

    def name(self) -> Path:
        self.made += 1
        return self.home / "runs" / f"run{self.made}"

    def add(self) -> Path:
        lines: dict[str, Any] = {"answers": [answer(p) for p in ("p1", "p2", "p3")], "judge_events": [start(3)]}
        scored = report(hilfreich=4, sicherheit=4, klarheit=4)
        return bundle(self.name(), judgements=[verdict("p1", 4)], reports=[scored], **lines)

    @property
    def runs(self) -> list[Path]:
        return sorted(path for path in (self.home / "runs").iterdir() if path.is_dir())

    # -- what can happen

    def change(self) -> list[Path] | None:
        """One change; the logs that grew, where nothing else happened."""
        run = self.random.choice(self.runs)
        prompt = self.random.choice(["p1", "p2", "p3", "zz1", "zz2"])
        score, flag = self.random.choice([None, 1, 2, 5]), self.random.random() < 0.3
        match self.random.randrange(12):
            case 0 | 1:
                append(run / "judgements.jsonl", verdict(prompt, score, red_flag=flag))
                return [run / "judgements.jsonl"]
            case 2 | 3:
                append(run / "judge_events.jsonl", event(prompt, score))
                return [run / "judge_events.jsonl"]
            case 4:
                append(run / "answers.jsonl", answer(self.random.choice(["p1", "p4", "p5", "zz1"])))
                return [run / "answers.jsonl"]
            case 5:
                self.add()
            case 6 if len(self.runs) > 1:
                shutil.rmtree(run)
            case 7:
                run.rename(self.name())
            case 8:
                log = run / "judgements.jsonl"
                log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
            case 9:
                (run / "pack.yaml").write_text(PACK.replace("By hand", f"Anew {self.random.randrange(3)}"))
            case 10:
                (run / "judge_quality.md").write_text(QUALITY.format(digit=self.random.randrange(9)))
            case _:
                if self.random.random() < 0.5:
                    (self.templates / "404.html").write_text(f"<!doctype html>{self.random.randrange(9)}")
                else:
                    self.lang = self.random.choice([("en",), ("de", "en"), ("en", "de")])
                    self.builder = Builder(self.options())
        return None

    def follow(self, grown: list[Path] | None) -> bool:
        """Build one way or another; whether everything is up to date then."""
        match self.random.randrange(3):
            case 0:
                self.builder.update()
            case 1:
                self.builder = Builder(self.options())
                self.builder.update()
            case _:
                if grown is not None and self.builder.grow([path.resolve() for path in grown]) is not None:
                    return False
                self.builder.update()
        return True

    def check(self) -> None:
        build(self.options(out=self.home / "fresh", state_home=self.home / "elsewhere"))
        assert contents(self.home / "out") == contents(self.home / "fresh")
        assert self.builder.update().written == []
        shutil.rmtree(self.home / "fresh")
        shutil.rmtree(self.home / "elsewhere")


@pytest.mark.parametrize("seed", range(3))
def test_after_any_sequence_of_changes_the_site_is_that_of_a_clean_build(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    for _ in range(12):
        if world.follow(world.change()):
            world.check()
    world.builder.update()
    world.check()


def test_several_processes_make_the_same_bytes_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, 7)
    for _ in range(4):
        world.add()
    world.builder.update()
    before = contents(tmp_path / "out")
    monkeypatch.setattr(building, "WORTH_SHARING", 1)
    build(world.options(out=tmp_path / "shared", state_home=tmp_path / "other"))
    assert contents(tmp_path / "shared") == before


def test_a_run_that_grows_renews_only_the_pages_of_its_newest_lines(tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    run = world.runs[0]
    append(run / "judge_events.jsonl", event("p2", 3))
    built = world.builder.grow([(run / "judge_events.jsonl").resolve()])
    assert built is not None
    home = f"runs/{run.name}/judge/"
    pages = {"index.html", f"{home}index.html", f"{home}verdicts-1.html"}
    assert set(built.written) == pages | {f"de/{page}" for page in pages}
    assert f"{home}verdicts-1.html" not in world.builder.update().written, "the rest follows, and only the rest"


def test_pages_that_somebody_looks_at_are_made_and_told_before_the_others(tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    run = world.runs[0]
    page = f"runs/{run.name}/judge/index.html"
    append(run / "judge_events.jsonl", event("p2", 3))
    told: list[list[str]] = []
    built = world.builder.grow([(run / "judge_events.jsonl").resolve()], {page}, told.append)
    assert built is not None
    assert told[0] == [page]
    assert [path for group in told for path in group] == built.written


def test_what_the_builder_is_told_of_and_does_not_know_is_for_update(tmp_path: Path) -> None:
    world = World(tmp_path, 9)
    run = world.runs[0]
    for path in (run / "pack.yaml", run / "new.txt", tmp_path / "runs" / "else" / LOGS[0], tmp_path / "runs"):
        assert world.builder.grow([path.resolve()]) is None
    built = world.builder.grow([run / ".judgements.jsonl.1.tmp"])
    assert built is not None and built.written == [], "what is written beside is no change yet"


def test_a_verdict_page_is_not_made_again_for_another_ones_verdict(tmp_path: Path) -> None:
    world = World(tmp_path, 10)
    many = bundle(
        world.name(),
        answers=[answer(f"q{n}") for n in range(600)],
        judgements=[verdict(f"q{n}", 4) for n in range(300)],
        judge_events=[start(600)],
    )
    world.builder.update()
    append(many / "judge_events.jsonl", event("q599", 2))
    built = world.builder.grow([(many / "judge_events.jsonl").resolve()])
    assert built is not None
    pages = {path.rpartition("/")[2] for path in built.written if "verdicts" in path}
    assert pages == {"verdicts-3.html"}


def test_a_deleted_or_edited_state_costs_time_and_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path, 11)
    before = contents(tmp_path / "out")
    (state,) = (tmp_path / ".touchstone").glob("build-*.json")
    text = state.read_text()
    for broken in (text.replace('"runs"', '"walks"'), text.replace("[", "{"), text.replace('"summary"', '"other"'), ""):
        state.write_text(broken)
        assert build(world.options()).written == []
        assert contents(tmp_path / "out") == before
