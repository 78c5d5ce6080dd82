"""Two at once: two builds into one folder, a build beside a server, a run that is deleted while it is read."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.cases import SMALL, two_runs
from tests.faults.faults import LONG, Commands, copy_of, posix, tree
from tests.faults.test_kills import Reader, is_whole, whole_pages
from tests.making import make_bundle
from tests.watching import wait_for

ROUNDS = 50 if LONG else 1

pytestmark = posix


def clean(commands: Commands) -> dict[str, bytes]:
    """What a build into an empty folder makes of the runs as they are now."""
    shutil.rmtree(commands.home / "clean", ignore_errors=True)
    commands("build", "--out", "clean")
    return tree(commands.home / "clean")


def settles(commands: Commands) -> None:
    """Waits until the site that is served is what a clean build makes."""
    deadline = time.monotonic() + 60
    while (wanted := clean(commands)) != (found := tree(commands.home / "public")) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert [path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)] == []


def test_two_builds_into_one_folder(commands: Commands, tmp_path: Path) -> None:
    chance = random.Random(7)
    home = copy_of(tmp_path, commands.home)
    two_runs(home)
    for number in range(ROUNDS):
        with whole_pages(home / "public"):
            builds = []
            for part in range(2):
                time.sleep(chance.uniform(0, 0.3))
                builds.append(commands.start("build"))
                # The second one sees other runs than the first.
                if part == 0:
                    make_bundle(home / "runs" / f"t{number}", models=["m3"], pack=SMALL)
                    shutil.rmtree(home / "runs" / f"t{number - 1}", ignore_errors=True)
            for build in builds:
                assert commands.wait(build).code == 0
        commands("build")
        assert tree(home / "public") == clean(commands), number


def test_a_build_beside_a_server(commands: Commands, tmp_path: Path) -> None:
    home = copy_of(tmp_path, commands.home)
    two_runs(home)
    process = commands.start("serve", "--port", "0", "--no-open")
    try:
        wait_for(lambda: commands.said.startswith("http://"))
        reader = Reader(commands.said.strip())
        for number in range(ROUNDS):
            make_bundle(home / "runs" / f"t{number}", models=["m3"], pack=SMALL)
            commands("build")
        reader.end()
        assert reader.whole and not reader.half
        settles(commands)
    finally:
        commands.kill(process)


@contextmanager
def coming_and_going(bundle: Path, chance: random.Random) -> Iterator[None]:
    """The run is deleted again and again, file by file, and copied back."""
    beside = bundle.parent.parent / "beside"
    shutil.copytree(bundle, beside)
    end = threading.Event()

    def go() -> None:
        while not end.wait(chance.uniform(0, 0.05)):
            shutil.rmtree(bundle)
            end.wait(chance.uniform(0, 0.05))
            shutil.copytree(beside, bundle)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def with_a_run_that_goes(commands: Commands, tmp_path: Path, chance: random.Random) -> Callable[[], None]:
    home = copy_of(tmp_path, commands.home)
    two_runs(home)
    make_bundle(home / "runs" / "large", models=["m1", "m2"], text="An answer. " * 2000)

    def check() -> None:
        commands("build")
        assert tree(home / "public") == clean(commands)

    return check


def test_a_run_deleted_while_it_is_built(commands: Commands, tmp_path: Path) -> None:
    chance = random.Random(8)
    check = with_a_run_that_goes(commands, tmp_path, chance)
    with whole_pages(commands.home / "public"), coming_and_going(commands.home / "runs" / "large", chance):
        for words in [("build",), ("build", "--target", "obsidian", "--out", "vault")] * ROUNDS:
            commands(*words)
    check()


def test_a_run_deleted_while_it_is_served(commands: Commands, tmp_path: Path) -> None:
    chance = random.Random(9)
    check = with_a_run_that_goes(commands, tmp_path, chance)
    process = commands.start("serve", "--port", "0", "--no-open")
    try:
        wait_for(lambda: commands.said.startswith("http://"))
        reader = Reader(commands.said.strip())
        with coming_and_going(commands.home / "runs" / "large", chance):
            time.sleep(30 if LONG else 1)
        settles(commands)
        reader.end()
        assert reader.whole and not reader.half
    finally:
        done = commands.kill(process)
    assert "Traceback" not in done.err
    check()
    assert all(is_whole(data) for path, data in tree(commands.home / "public").items() if path.endswith(".html"))
