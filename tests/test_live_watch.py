"""Noticing changes on disk: told by the system, found out by polling, where neither works as one would wish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from touchstone.live import watch
from touchstone.live.watch import Changed, Watched, changes, deaf, deaf_among

BOTH = pytest.mark.parametrize("poll", [False, True], ids=["notified", "polling"])


class Seen:
    """What was noticed so far."""

    def __init__(self) -> None:
        self.all: list[Changed | None] = []
        self.notes: list[str] = []

    @property
    def paths(self) -> set[Path]:
        return {path for changed in self.all for path in changed or ()}

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.005)


@contextmanager
def watching(watched: Watched | Callable[[], Watched], poll: bool) -> Iterator[Seen]:
    """Notices, in a thread, while the context lasts; it begins once the watch is in place."""
    seen, stop = Seen(), threading.Event()
    ask = watched if callable(watched) else lambda: watched

    def run() -> None:
        for changed in changes(ask, stop, poll=poll, note=seen.notes.append):
            if changed is None or changed:
                seen.all.append(changed)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        seen.wait(lambda: None in seen.all)
        yield seen
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


@BOTH
def test_twenty_appends_within_a_second_are_all_noticed(tmp_path: Path, poll: bool) -> None:
    log = tmp_path / "r" / "judge_events.jsonl"
    log.parent.mkdir()
    log.touch()
    with watching(Watched((tmp_path,)), poll) as seen, log.open("a") as file:
        for _ in range(20):
            before = len(seen.all)
            file.write("x\n")
            file.flush()
            seen.wait(lambda before=before: len(seen.all) > before)  # type: ignore[misc]
        assert seen.paths >= {log}


@BOTH
def test_a_writer_that_never_pauses_is_seen_while_it_writes(tmp_path: Path, poll: bool) -> None:
    log, done = tmp_path / "judge_events.jsonl", threading.Event()
    log.touch()

    def write() -> None:
        with log.open("a") as file:
            while not done.is_set():
                file.write("x\n")
                file.flush()

    with watching(Watched((tmp_path,)), poll) as seen:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            seen.wait(lambda: sum(1 for each in seen.all if each) >= 5)
        finally:
            done.set()
            writer.join()


@BOTH
def test_whatever_happens_to_files_and_folders_is_noticed(tmp_path: Path, poll: bool) -> None:
    runs = tmp_path / "runs"
    (runs / "old").mkdir(parents=True)
    (runs / "old" / "pack.yaml").write_text("a")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "answers.jsonl").write_text("a")
    with watching(Watched((runs,)), poll) as seen:

        def noticed(act: Callable[[], object]) -> None:
            before = len(seen.all)
            act()
            seen.wait(lambda: len(seen.all) > before)

        noticed(lambda: (tmp_path / "new").rename(runs / "new"))
        noticed(lambda: (runs / "new" / "answers.jsonl").write_text("b"))
        noticed(lambda: (runs / "old" / "pack.yaml").unlink())
        noticed(lambda: (runs / "old").rmdir())
        noticed(lambda: (runs / "new").rename(runs / "newer"))
        (tmp_path / "saved").write_text("c")
        noticed(lambda: (tmp_path / "saved").replace(runs / "newer" / "answers.jsonl"))
        noticed(lambda: (runs / "newer" / "answers.jsonl").write_text("d"))
        noticed(lambda: (runs / "deep" / "er").mkdir(parents=True))
        seen.wait(lambda: runs / "deep" in seen.paths)
        time.sleep(0.3)
        noticed(lambda: (runs / "deep" / "er" / "answers.jsonl").write_text("e"))


def test_a_file_saved_by_deleting_and_adding_is_one_change(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("a")
    with watching(Watched((tmp_path,)), False) as seen:
        page.unlink()
        time.sleep(0.005)
        page.write_text("b")
        seen.wait(lambda: page in seen.paths)
        time.sleep(0.2)
        assert sum(1 for changed in seen.all if changed and page in changed) == 1


@BOTH
@pytest.mark.parametrize("name", ["site-packages", ".idea", "__pycache__"])
def test_no_folder_is_passed_over_for_its_name(tmp_path: Path, poll: bool, name: str) -> None:
    (tmp_path / name).mkdir()
    with watching(Watched((tmp_path,)), poll) as seen:
        (tmp_path / name / "answers.jsonl").write_text("a")
        seen.wait(lambda: tmp_path / name / "answers.jsonl" in seen.paths)


@BOTH
def test_a_folder_that_is_replaced_is_watched_again(tmp_path: Path, poll: bool) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with watching(Watched((runs,)), poll) as seen:
        runs.rename(tmp_path / "away")
        time.sleep(1)
        (tmp_path / "fresh").mkdir()
        (tmp_path / "fresh").rename(runs)
        seen.wait(lambda: seen.all.count(None) >= 2)
        time.sleep(1)
        (runs / "answers.jsonl").write_text("a")
        seen.wait(lambda: runs / "answers.jsonl" in seen.paths)


def test_a_single_file_is_looked_at_through_renames_and_absence(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    config = tmp_path / "touchstone.yaml"
    with watching(Watched((tmp_path / "runs",), (config,)), False) as seen:
        for act in (
            lambda: config.write_text("a"),
            lambda: ((tmp_path / "x").write_text("bc"), (tmp_path / "x").replace(config)),
            lambda: config.unlink(),
        ):
            before = len(seen.all)
            act()
            seen.wait(lambda before=before: config in set().union(*(each or () for each in seen.all[before:])))  # type: ignore[misc]


@BOTH
def test_what_we_write_ourselves_is_no_news(tmp_path: Path, poll: bool) -> None:
    ours = tmp_path / "public"
    ours.mkdir()
    with watching(Watched((tmp_path,), ours=(ours,)), poll) as seen:
        (ours / "index.html").write_text("x")
        time.sleep(0.8)
        (tmp_path / "style.css").write_text("x")
        seen.wait(lambda: tmp_path / "style.css" in seen.paths)
        assert not [path for path in seen.paths if path.is_relative_to(ours) and path != ours]


def test_what_is_watched_can_change(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    now = [Watched((tmp_path / "a",))]
    with watching(lambda: now[0], False) as seen:
        now[0] = Watched((tmp_path / "b",))
        seen.wait(lambda: seen.all.count(None) == 2)
        (tmp_path / "b" / "x").write_text("x")
        seen.wait(lambda: tmp_path / "b" / "x" in seen.paths)


@pytest.mark.parametrize(
    ("mounts", "folder", "kind"),
    [
        ([("/", "ext4")], "/home/me/runs", None),
        ([("/", "ext4"), ("/mnt/c", "9p")], "/mnt/c/runs", "9p"),
        ([("/", "ext4"), ("/mnt/c", "9p")], "/mnt/cc/runs", None),
        ([("/", "overlay"), ("/work", "fuse.sshfs")], "/work", "fuse.sshfs"),
        ([("/", "nfs4"), ("/home", "ext4")], "/home/me", None),
        ([("/", "nfs4"), ("/home", "ext4")], "/srv", "nfs4"),
        ([("/x", "ext4"), ("/x", "cifs")], "/x/runs", "cifs"),
        ([("/x", "SMBFS")], "/x/runs", "smbfs"),
        ([("/x", "fuseblk")], "/x/runs", None),
        ([], "/x", None),
    ],
)
def test_file_systems_that_do_not_tell(mounts: list[tuple[str, str]], folder: str, kind: str | None) -> None:
    assert deaf_among(mounts, Path(folder)) == kind


def test_the_disk_of_this_test_tells(tmp_path: Path) -> None:
    assert deaf(tmp_path) is None


def test_a_deaf_file_system_is_polled_and_that_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Part:
        mountpoint, fstype = str(tmp_path), "9p"

    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [Part])
    log = tmp_path / "answers.jsonl"
    log.write_text("a\n")
    monkeypatch.setattr(watch, "RustNotify", None)
    with watching(Watched((tmp_path,)), False) as seen, log.open("a") as file:
        file.write("b\n")
        file.flush()
        seen.wait(lambda: log in seen.paths)
    assert len(seen.notes) == 1 and "(9p)" in seen.notes[0] and str(tmp_path) in seen.notes[0]


LIMITED = """
import sys, threading, time
from pathlib import Path
from touchstone.live.watch import Watched, changes
folder, stop = Path(sys.argv[1]), threading.Event()
for changed in changes(lambda: Watched((folder,)), stop, poll=False, note=lambda text: print(text, flush=True)):
    if changed is None:
        (folder / "x.jsonl").write_text("x")
    elif changed:
        stop.set()
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="takes a limit that cannot be set without harm to others")
def test_without_notifications_left_it_polls_and_says_so(tmp_path: Path) -> None:
    command = f"echo 0 > /proc/sys/user/max_inotify_instances && exec {sys.executable} -c '{LIMITED}' {tmp_path}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if "unshare" in done.stderr or "max_inotify" in done.stderr:
        pytest.skip("namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    assert "comparing sizes of files instead" in done.stdout and "Traceback" not in done.stderr


def test_polling_looks_at_few_files_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        (tmp_path / f"r{number}").mkdir()
        (tmp_path / f"r{number}" / "answers.jsonl").write_text("a\n")
    counts: list[int] = []
    stamp = watch._stamp

    def counted(path: Path) -> watch.Stamp | None:
        counts.append(1)
        return stamp(path)

    monkeypatch.setattr(watch, "_stamp", counted)
    monkeypatch.setattr(watch, "SCAN_S", 1000)
    stop = threading.Event()
    source = changes(lambda: Watched((tmp_path,)), stop, poll=True, note=lambda text: None)
    next(source)
    counts.clear()
    for _ in range(10):
        assert next(source) == frozenset()
    stop.set()
    assert len(counts) <= 10 * watch.HOT
