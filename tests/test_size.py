"""The site has a size that it keeps to: the oldest runs keep their result, and no link leads nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.making import make_bundle
from tests.pages import Html, dead_links, html_pages
from touchstone.build import Built, build
from touchstone.options import Options


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for year in (2023, 2024, 2025):
        make_bundle(tmp_path / "runs" / f"r{year}", models=["m"], created=f"{year}-01-01T00:00:00Z")
    return tmp_path


def made(home: Path, out: str = "out", **more: Any) -> Built:
    state = home / f"{out}-state"
    return build(Options(runs=home / "runs", out=home / out, langs=("en", "de"), state_home=state, **more))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weight(out: Path, run: str) -> int:
    folders = [out / "runs" / run, out / "de" / "runs" / run]
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def test_the_oldest_runs_keep_their_result_alone(home: Path) -> None:
    full = made(home)
    one = weight(home / "out", "r2025")
    assert full.heaviest is not None and full.heaviest[1] == max(
        weight(home / "out", f"r{y}") for y in (2023, 2024, 2025)
    )
    less = made(home, max_bytes=int(one * 2.5))
    assert any("1 of 3 runs" in note for note in less.notes)
    out = home / "out"
    kept = {
        path.relative_to(out / "runs/r2023").as_posix() for path in (out / "runs/r2023").rglob("*") if path.is_file()
    }
    assert kept == {"index.html"}
    assert "too large" in Html(out / "runs/r2023/index.html").text
    assert (out / "runs/r2024/judge/verdicts-1.html").is_file()
    assert dead_links(out, html_pages(out)) == []
    assert made(home, max_bytes=int(one * 2.5)).written == []
    made(home, "fresh", max_bytes=int(one * 2.5))
    assert contents(out) == contents(home / "fresh")


def test_there_is_room_again(home: Path) -> None:
    made(home)
    before = contents(home / "out")
    made(home, max_bytes=1)
    assert not (home / "out/runs/r2024/judge").exists() and (home / "out/runs/r2025/judge/index.html").is_file()
    made(home)
    assert contents(home / "out") == before


def test_the_build_says_what_it_weighs_and_how_long_it_took(home: Path) -> None:
    (home / "touchstone.yaml").write_text("max_site_mb: 0.001\n")
    done = Cli(home)("build")
    assert "MB (most of it r2025: " in done.out and done.out.rstrip().endswith(" s")
    assert "(max_site_mb)" in done.err
