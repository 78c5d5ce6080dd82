"""Runs spread over a real Dask cluster on loopback: the same bytes, whoever dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cluster import cluster
from tests.conftest import Cli
from tests.making import make_bundle
from tests.watching import put_away, wait_for
from touchstone.build import build
from touchstone.options import Options


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def alone(home: Path, templates: Path | None = None) -> dict[str, bytes]:
    """The site as one process makes it."""
    state = home / "alone"
    state.mkdir()
    build(Options(home / "runs", state / "public", templates=templates, state_home=state))
    return tree(state / "public")


@pytest.mark.skipif(sys.platform != "linux", reason="a path that is another one for each process")
def test_workers_that_see_no_file_of_ours_make_the_same_bytes(cli: Cli) -> None:
    for n in range(3):
        make_bundle(cli.home / "runs" / f"2026-01-0{n + 1}_000000_eval_probe", judged=20 * n)
    (cli.home / "runs" / "2026-01-01_000000_eval_probe" / "judgements.jsonl").write_text("no json\n")
    templates, elsewhere = cli.home / "templates", cli.home / "elsewhere"
    for folder in (templates, elsewhere):
        folder.mkdir()
    (templates / "own.css").write_text("b{}")
    with cluster(elsewhere, 2) as made:
        # Each process has its own.
        runs = "/proc/self/cwd/runs"
        asked = ["build", "--runs", runs, "--templates", "templates", "--scheduler", made.address]
        said = cli(*asked)
        assert "made here" not in said.err and "2026-01-01_000000_eval_probe/judgements.jsonl:1: " in said.err
        assert tree(cli.home / "public") == alone(cli.home, templates)
        assert " 0 written, " in cli(*asked).out


@pytest.mark.parametrize("victim", ["worker", "scheduler"])
def test_who_dies_in_the_middle_costs_nothing(cli: Cli, victim: str) -> None:
    for n in range(8):
        make_bundle(cli.home / "runs" / f"2026-01-{n + 1:02}_000000_eval_probe", repeats=2)
    with cluster(cli.home, 2) as made:
        process = cli.start("build", "--scheduler", made.address)
        try:
            wait_for(lambda: len(list((cli.home / "public").glob("runs/*"))) >= 1)
            dying = made.scheduler if victim == "scheduler" else made.workers[0]
            dying.kill()
            assert process.poll() is None, "it was done before somebody died"
            out, err = process.communicate(timeout=60)
        finally:
            put_away(process)
        assert (process.returncode == 0 and out.startswith("public/index.html: 8 runs")) or os.name == "nt", err
        assert ("made here" in err) == (victim == "scheduler"), err
        assert "Traceback" not in err and err.count("\n") <= 1, err
        assert tree(cli.home / "public") == alone(cli.home)


def test_what_is_no_cluster_or_another_touchstone_is_said_in_a_line(cli: Cli) -> None:
    make_bundle(cli.home / "runs" / "2026-01-01_000000_eval_probe", judged=4)
    package = cli.home / "other" / "touchstone"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")

    def refused(address: str) -> str:
        said = cli("build", "--scheduler", address, code=1).err
        assert said.count("\n") == 1 and not (cli.home / "public" / "index.html").exists(), said
        return said

    assert "write one like tcp://127.0.0.1:8786" in refused("what://ever")
    with cluster(cli.home, 0) as made:
        made.add(cli.home, package.parent)
        made.wait()
        assert "has no touchstone like this one; pip install 'touchstone-judge[dask]==" in refused(made.address)
