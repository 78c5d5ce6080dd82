"""One writer a bundle: a second one is told who writes, and the lock dies with its process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from touchstone.errors import BusyError, MachineError
from touchstone.store.lock import HOLDER_NAME, LOCK_NAME, exclusive

HOLDER = """
import sys
from pathlib import Path
from touchstone.store.lock import exclusive
with exclusive(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(bundle: Path, command: str = "judge") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the bundle until its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(bundle), command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def soon_free(bundle: Path) -> bool:
    """Whether the bundle can be had; the system may take a moment to bury the dead."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with exclusive(bundle, "eval"):
                return True
        except BusyError:
            time.sleep(0.01)
    return False


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with held(tmp_path, "judge") as holder:
        with pytest.raises(BusyError) as caught, exclusive(tmp_path, "eval"):
            pytest.fail("two writers")
        assert str(caught.value) == (
            f"{tmp_path}: `touchstone judge` (process {holder.pid}) is writing here; wait until it ends, or stop it"
        )
        with pytest.raises(BusyError, match=str(holder.pid)), exclusive(tmp_path, "eval"):
            pytest.fail("the refusal must not have disturbed the holder")


def test_kill_9_of_the_holder_frees_the_bundle(tmp_path: Path) -> None:
    with held(tmp_path) as holder:
        holder.kill()
        holder.wait()
        assert (tmp_path / HOLDER_NAME).is_file(), "killed, so it could not tidy up"
        assert soon_free(tmp_path)
    assert not (tmp_path / HOLDER_NAME).exists(), "the next holder did"


def test_a_holder_that_ends_frees_the_bundle_and_tidies_up(tmp_path: Path) -> None:
    with held(tmp_path) as holder:
        assert holder.stdin is not None
        holder.stdin.close()
        assert holder.wait() == 0
        assert not (tmp_path / HOLDER_NAME).exists() and soon_free(tmp_path)


def test_an_error_of_the_holder_frees_the_bundle(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), exclusive(tmp_path, "judge"):
            raise ZeroDivisionError
    assert not (tmp_path / HOLDER_NAME).exists()


def test_one_process_cannot_hold_a_bundle_twice_but_two_bundles_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        exclusive(tmp_path / "a", "judge"),
        exclusive(tmp_path / "b", "judge"),
        pytest.raises(BusyError, match=f"process {os.getpid()}"),
        exclusive(tmp_path / "a", "scorecard"),
    ):
        pytest.fail("two writers")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"pid": "x", "command": "judge"}', '{"pid": 1}', "[" * 100_000, "\x00"],
    ids=["empty", "half", "a list", "null", "no number", "no command", "deep", "NUL"],
)
def test_a_note_that_says_nothing_is_not_quoted(tmp_path: Path, text: str) -> None:
    with held(tmp_path):
        (tmp_path / HOLDER_NAME).write_text(text)
        with pytest.raises(BusyError, match="another touchstone process is writing here"), exclusive(tmp_path, "eval"):
            pytest.fail("two writers")


def test_a_file_in_the_place_of_the_bundle_is_one_plain_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="file: "), exclusive(tmp_path / "file", "judge"):
        pytest.fail("nothing to hold")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
@pytest.mark.parametrize("name", [LOCK_NAME, HOLDER_NAME])
def test_a_link_in_the_place_of_the_lock_does_no_harm(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "precious"
    outside.write_text("mine")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / name).symlink_to(outside)
    if name == LOCK_NAME:
        with pytest.raises(MachineError, match="symbolic link"), exclusive(bundle, "judge"):
            pytest.fail("locked a foreign file")
    else:
        with exclusive(bundle, "judge"):
            pass
    assert outside.read_text() == "mine"
