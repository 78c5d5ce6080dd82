"""Runs spread over a real Dask cluster on loopback: the same bytes, whoever dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import cluster
from tests.conftest import Cli
from tests.making import make_bundle
from tests.watching import put_away, wait_for
from touchstone.build import build
from touchstone.errors import MachineError
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
def test_workers_that_see_no_file_of_ours_make_the_same_bytes_though_one_is_killed(cli: Cli) -> None:
    for n in range(8):
        make_bundle(cli.home / "runs" / f"2026-01-0{n + 1}_000000_eval_probe", judged=15 * n, repeats=2)
    (cli.home / "runs" / "2026-01-01_000000_eval_probe" / "judgements.jsonl").write_text("no json\n")
    templates, elsewhere = cli.home / "templates", cli.home / "elsewhere"
    for folder in (templates, elsewhere):
        folder.mkdir()
    (templates / "own.css").write_text("b{}")
    with cluster(elsewhere, 2) as made:
        # Each process has its own.
        asked = ["build", "--runs", "/proc/self/cwd/runs", "--templates", "templates", "--scheduler", made.address]
        err = killed_in_the_middle(cli, asked, made.workers[0])
        assert "made here" not in err and "2026-01-01_000000_eval_probe/judgements.jsonl:1: " in err
        assert tree(cli.home / "public") == alone(cli.home, templates)


def test_a_scheduler_that_is_killed_in_the_middle_costs_nothing(cli: Cli) -> None:
    for n in range(8):
        make_bundle(cli.home / "runs" / f"2026-01-0{n + 1}_000000_eval_probe", repeats=2)
    with cluster(cli.home, 1) as made:
        asked = ["build", "--scheduler", made.address]
        err = killed_in_the_middle(cli, asked, made.scheduler)
        assert err.startswith(made.address) and "made here" in err and err.count("\n") == 1, err
        assert tree(cli.home / "public") == alone(cli.home)
        assert " 0 written, " in cli(*asked).out, "where nothing is to be made, nobody is asked"


def killed_in_the_middle(cli: Cli, asked: list[str], victim: subprocess.Popen[str]) -> str:
    """What a build says in which a part of the cluster dies as soon as the first run is there."""
    process = cli.start(*asked)
    try:
        wait_for(lambda: any((cli.home / "public").glob("runs/*")))
        victim.kill()
        assert process.poll() is None, "it was done before somebody died"
        out, err = process.communicate(timeout=60)
    finally:
        put_away(process)
    assert process.returncode == 0 and out.startswith("public/index.html: 8 runs") and "Traceback" not in err, err
    return err


def test_where_nobody_answers_that_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("touchstone.scheduler.CONNECT_S", 0.3)
    make_bundle(cli.home / "runs" / "2026-01-01_000000_eval_probe", judged=4)
    options = Options(cli.home / "runs", cli.home / "public", state_home=cli.home, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(MachineError, match=r"^tcp://127\.0\.0\.1:1: no Dask scheduler answers there; "):
        build(options)


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
