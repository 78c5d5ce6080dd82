"""Lines of several tasks, synced together: whoever has waited finds its line on disk."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest
from pydantic import BaseModel

from touchstone.errors import MachineError
from touchstone.store.commit import GroupCommit
from touchstone.store.write import JsonlWriter


class Line(BaseModel):
    """Any line."""

    number: int


class Disk:
    """The operating system's fsync, listened to: how much of the file each one covered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> None:
        self.covered: list[int] = []
        self.threads: set[int] = set()
        real = os.fsync

        def fsync(file: int) -> None:
            if fails:
                raise OSError(28, "No space left on device")
            if stat.S_ISREG(os.fstat(file).st_mode):  # the folder of a new log is synced too
                self.threads.add(threading.get_ident())
                self.covered.append(os.fstat(file).st_size)
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)


async def write(path: Path, writers: int, lines: int, seen: list[tuple[int, int]], disk: Disk) -> None:
    with JsonlWriter(path, sync=True, cut_half=True) as log:
        commit = GroupCommit(log, writers)

        async def work(first: int) -> None:
            for number in range(first, lines, writers):
                await commit.append(Line(number=number))
                seen.append((number, disk.covered[-1] if disk.covered else 0))

        async with asyncio.TaskGroup() as group:
            for first in range(writers):
                group.create_task(work(first))


@pytest.mark.parametrize("writers", [1, 8])
def test_a_line_is_synced_once_its_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writers: int
) -> None:
    path = tmp_path / "log.jsonl"
    disk = Disk(monkeypatch)
    seen: list[tuple[int, int]] = []
    asyncio.run(write(path, writers, 40, seen, disk))
    ends, end = {}, 0
    for line in path.read_bytes().splitlines(keepends=True):
        end += len(line)
        ends[Line.model_validate_json(line).number] = end
    assert sorted(ends) == list(range(40))
    assert len(seen) == 40
    assert all(covered >= ends[number] for number, covered in seen)


def test_one_sync_covers_the_lines_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    asyncio.run(write(tmp_path / "log.jsonl", 8, 80, [], disk))
    assert len(disk.covered) <= 30  # eight at a time, and one more while the first is under way
    assert threading.get_ident() not in disk.threads, "the event loop must go on meanwhile"


def test_a_single_writer_needs_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    asyncio.run(write(tmp_path / "log.jsonl", 1, 5, [], disk))
    assert disk.threads == {threading.get_ident()}
    assert len(disk.covered) == 5


def test_a_full_disk_is_told_to_whoever_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, fails=True)
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(write(tmp_path / "log.jsonl", 2, 4, [], disk))
    assert all(isinstance(error, MachineError) for error in raised.value.exceptions)


def test_closing_syncs_what_nobody_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    path = tmp_path / "log.jsonl"
    with JsonlWriter(path, sync=True, cut_half=True) as log:
        log.append_unsynced(Line(number=1))
        assert not disk.covered
    assert disk.covered == [path.stat().st_size]
