"""Output that goes nowhere: the work is done all the same, and what a full disk swallowed is said in the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.standin import Brain, StandIn
from tests.test_chain import lines, the_bundle, write_project

full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stdout and stderr"])
def test_a_run_goes_on_where_its_reader_has_seen_enough(cli: Cli, endpoint: StandIn, both: bool) -> None:
    """As `touchstone run | head -1`, and as `touchstone run 2>&1 | head -1`."""
    write_project(cli.home, endpoint, prompts=2)
    endpoint.script = Brain(delay_s=0.02)
    with subprocess.Popen(
        [sys.executable, "-m", "touchstone", "run"],
        cwd=cli.home,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if both else subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.stdout.close()
        said = b"" if process.stderr is None else process.stderr.read()
        assert process.wait(60) == 0, said.decode()
    assert b"Traceback" not in said and b"Exception ignored" not in said
    assert len(lines(the_bundle(cli.home) / "judgements.jsonl")) == 8
    assert (cli.home / "public" / "index.html").is_file()


@full
def test_results_that_a_full_disk_swallows_are_no_success(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint, prompts=1)
    with Path("/dev/full").open("wb") as nowhere:
        done = subprocess.run(
            [sys.executable, "-m", "touchstone", "eval"],
            cwd=cli.home,
            env=cli.environment(),
            stdout=nowhere,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1 and "touchstone: standard output: no space left" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert len(lines(the_bundle(cli.home) / "answers.jsonl")) == 4


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.skipif(os.name == "nt", reason="closes descriptors of POSIX")
def test_a_command_without_streams_works(cli: Cli, unbuffered: str) -> None:
    """As from a service manager that gives it none at all."""
    command = f"exec {sys.executable} -m touchstone init --help <&- >&- 2>&-"
    env = cli.environment({"PYTHONUNBUFFERED": unbuffered})
    assert subprocess.run(["sh", "-c", command], cwd=cli.home, env=env, timeout=60).returncode == 0


@pytest.mark.parametrize("into", [True, False], ids=["judge --into", "eval"])
def test_a_run_that_was_made_for_nothing_is_taken_back(cli: Cli, endpoint: StandIn, into: bool) -> None:
    write_project(cli.home, endpoint, prompts=1)
    cli("eval")
    (bundle,) = before = list((cli.home / "runs").iterdir())
    endpoint.stop()
    words = ("judge", "--bundle", str(bundle), "--into", "second") if into else ("eval",)
    assert str(endpoint.port) in cli(*words, code=1).err
    assert list((cli.home / "runs").iterdir()) == before
