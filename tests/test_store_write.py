"""Lines and files that are on disk whole or not at all, and never anywhere else than where they were meant."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT
from touchstone.contracts.lines import Answer
from touchstone.errors import MachineError
from touchstone.store.write import JsonlWriter, encode, machine_error, replace_file, save

links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


def answer(number: int, text: str = "x") -> Answer:
    return Answer(model="m", variant="v", prompt_id=f"p{number}", repeat=0, answer=text)


@pytest.mark.parametrize(
    ("before", "cut", "kept"),
    [
        (None, True, b""),
        (b"", True, b""),
        (b"{}\n", True, b"{}\n"),
        (b"{}\n", False, b"{}\n"),
        (b'{}\n{"ha', True, b"{}\n"),
        (b'{}\n{"ha', False, b'{}\n{"ha\n'),
        (b"no end", True, b""),
        (b"no end", False, b"no end\n"),
        (b"{}\n" + b"x" * 65_536, True, b"{}\n"),
        (b"x" * 65_535 + b"\n" + b"y" * 65_536, True, b"x" * 65_535 + b"\n"),
    ],
    ids=["no file", "empty", "whole, to be cut", "whole, to be ended", "half, cut", "half, ended", "only half, cut",
         "only half, ended", "half of exactly one block", "newline at the end of a block"],
)  # fmt: skip
@pytest.mark.parametrize("sync", [True, False], ids=["synced", "not synced"])
def test_a_writer_goes_on_after_a_whole_line(
    tmp_path: Path, before: bytes | None, cut: bool, kept: bytes, sync: bool
) -> None:
    log = tmp_path / "log"
    if before is not None:
        log.write_bytes(before)
    with JsonlWriter(log, sync=sync, cut_half=cut) as writer:
        assert log.read_bytes() == kept
        writer.append(answer(1))
        assert log.read_bytes() == kept + encode(answer(1)), "there at once, not at the end"
        writer.append(answer(2))
    assert log.read_bytes() == kept + encode(answer(1)) + encode(answer(2))


def test_closing_twice_is_no_fault(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "log", sync=False, cut_half=True)
    writer.close()
    writer.close()


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    data = encode(answer(1, "a\nb\r\u2028\x85 é 😀 \\"))
    assert data.count(b"\n") == 1 and data.endswith(b"\n")
    assert "é 😀".encode() in data, "text stays readable"
    assert json.loads(data)["answer"] == "a\nb\r\u2028\x85 é 😀 \\"


WRITER = """
import sys
from pathlib import Path
from tests.test_store_write import answer
from touchstone.store.write import JsonlWriter
with JsonlWriter(Path(sys.argv[1]), sync=False, cut_half=True) as writer:
    for number in range(int(sys.argv[2]), 10**9):
        writer.append(answer(number, "x" * 5000))
        if number == int(sys.argv[2]):
            print("writing", flush=True)
"""


def test_kill_9_costs_at_most_the_line_that_was_being_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = 0
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, str(log), str(lines)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
            writer.kill()
        whole = log.read_bytes().split(b"\n")[:-1]
        assert [json.loads(line)["prompt_id"] for line in whole] == [f"p{n}" for n in range(len(whole))]
        assert len(whole) > lines
        lines = len(whole)


@links
def test_a_link_in_the_place_of_a_log_is_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("mine")
    log = tmp_path / "judgements.jsonl"
    log.symlink_to(outside)
    with pytest.raises(MachineError, match=r"judgements\.jsonl: is a symbolic link, which touchstone does not follow"):
        JsonlWriter(log, sync=True, cut_half=True)
    assert outside.read_text() == "mine"
    log.unlink()
    log.symlink_to(tmp_path / "not there")
    with pytest.raises(MachineError, match="symbolic link"):
        JsonlWriter(log, sync=True, cut_half=True)
    assert not (tmp_path / "not there").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        JsonlWriter(tmp_path / "none" / "log", sync=True, cut_half=True)
    assert str(caught.value) == f"{tmp_path / 'none' / 'log'}: no such file or directory"
    with pytest.raises(MachineError, match="no such file"):
        save(tmp_path / "none" / "scorecard.md", "text")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "the disk is full; free some space and run the same command again"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "no permission; check who owns the folder and what is in it"),
        (errno.EPERM, "no permission; check who owns the folder and what is in it"),
        (errno.ELOOP, "is a symbolic link"),
        (errno.EIO, os.strerror(errno.EIO).lower()),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
def test_the_machine_s_refusals_in_plain_words(number: int, says: str) -> None:
    assert str(machine_error(Path("x/log"), OSError(number, os.strerror(number)))).startswith(
        f"{Path('x/log')}: {says}"
    )


def test_an_error_without_a_number_keeps_its_words() -> None:
    assert str(machine_error(Path("x"), OSError("Odd"))) == "x: odd"


def test_a_replacement_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / ("long-" * 40 + ".md")
    for content in (b"one", b"", b"two" * 1000):
        replace_file(target, content, sync=True)
        assert target.read_bytes() == content
    save(target, "Grüße")
    assert target.read_bytes() == "Grüße".encode()
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize(
    "name", ["x" * 255, "ü" * 127, "漢" * 85, "🦊" * 63], ids=["ASCII", "two", "three", "four bytes"]
)
def test_a_name_may_be_as_long_as_the_file_system_takes(tmp_path: Path, name: str) -> None:
    with suppress(OSError):  # not every file system counts in bytes
        (tmp_path / name).write_bytes(b"")
        replace_file(tmp_path / name, b"ours")
        assert (tmp_path / name).read_bytes() == b"ours"
        return
    assert not (tmp_path / name).exists()


def test_what_cannot_be_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "target" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        replace_file(tmp_path / "target", b"x")
    with pytest.raises(MachineError):
        save(tmp_path / "target", "x")
    assert [path.name for path in tmp_path.rglob("*")] == ["target", "inside"]


@links
def test_a_replacement_takes_the_place_of_a_link_and_leaves_its_target(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("mine")
    (tmp_path / "link").symlink_to(outside)
    replace_file(tmp_path / "link", b"ours")
    assert outside.read_text() == "mine" and (tmp_path / "link").read_bytes() == b"ours"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_where_a_replacement_is_written_first_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    # Whose number the next process has, a stranger can guess: a bundle may hold such a link for each.
    (tmp_path / f".scorecard.md.{os.getpid()}.tmp").symlink_to(outside)
    replace_file(tmp_path / "scorecard.md", b"ours")
    assert outside.read_text() == "mine" and (tmp_path / "scorecard.md").read_bytes() == b"ours"
    assert not (tmp_path / "scorecard.md").is_symlink() and len(list(tmp_path.iterdir())) == 2


SWAPPER = """
import sys
from pathlib import Path
from touchstone.store.write import replace_file
for number in range(400):
    replace_file(Path(sys.argv[1]), bytes([65 + number % 2]) * 100_000)
"""


def test_a_reader_meets_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "page"
    target.write_bytes(b"A" * 100_000)
    met = set()
    with subprocess.Popen([sys.executable, "-c", SWAPPER, str(target)], cwd=ROOT) as swapper:
        while swapper.poll() is None:
            met.add(target.read_bytes())
    assert swapper.returncode == 0
    assert met <= {b"A" * 100_000, b"B" * 100_000} and len(met) == 2
