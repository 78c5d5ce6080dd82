"""Logs as lines: however they are cut, torn, shrunk, replaced or edited, and however long a line is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone.jsonsource import MAX_LINE_BYTES
from touchstone.store.lines import CHUNK, Line, LineCutter, LogTail, read_at
from touchstone.store.write import replace_file


def follow(tail: LogTail) -> list[Line]:
    """What a reader does each time: ask whether the file is another one now, then read on."""
    tail.replaced()
    return list(tail.read())


def texts(lines: list[Line]) -> list[bytes | None]:
    return [line.data for line in lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"half", []),
        (b"a\n", [b"a"]),
        (b"a\nhalf", [b"a"]),
        (b"a\n\n\nb\n", [b"a", b"", b"", b"b"]),
        (b"a\r\nb\r\n", [b"a\r", b"b\r"]),
        (b"a\rb\x0bc\x85d\xe2\x80\xa8e\n", [b"a\rb\x0bc\x85d\xe2\x80\xa8e"]),
        (b"\x00\xff\n", [b"\x00\xff"]),
    ],
    ids=["empty", "one empty line", "half a line", "one line", "a line and a half", "empty lines count",
         "the carriage return stays", "only a newline ends a line", "any bytes"],
)  # fmt: skip
def test_a_line_is_what_a_newline_ends(tmp_path: Path, data: bytes, lines: list[bytes]) -> None:
    log = tmp_path / "log"
    log.write_bytes(data)
    tail = LogTail(log)
    found = follow(tail)
    assert texts(found) == lines
    assert tail.half is (data[-1:] not in (b"", b"\n"))
    assert [line.index for line in found] == list(range(len(lines)))
    assert [read_at(log, line.offset) for line in found] == lines
    assert follow(tail) == [], "nothing came since"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=30), max_size=8),
    st.lists(st.integers(0, 8), max_size=6),
)
def test_a_growing_log_reads_the_same_however_often_it_is_looked_at(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], looks: list[int]
) -> None:
    log = tmp_path_factory.mktemp("grow") / "log"
    tail, seen = LogTail(log), []
    for number, piece in enumerate(pieces):
        with log.open("ab") as file:
            file.write(piece)
        if number in looks:
            assert not tail.replaced(), "an append is no replacement"
            seen += list(tail.read())
    seen += follow(tail)
    assert seen == list(LineCutter().feed(b"".join(pieces)))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "half", "end", "shrink", "replace", "gone", "edit", "folder"]), st.integers(0, 99)
    ),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_following_a_log_equals_reading_it_afresh(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    log = tmp_path_factory.mktemp("follow") / "log"
    tail = LogTail(log)
    known: list[Line] = []
    for serial, (what, amount) in enumerate(steps):
        if log.is_dir():
            log.rmdir()
        old = log.read_bytes() if log.exists() else b""
        if what in ("append", "half", "end"):
            more = {"append": b"%d-%d\n" % (serial, amount), "half": b"%d" % amount, "end": b"\n"}[what]
            with log.open("ab") as file:
                file.write(more)
        elif what == "shrink":
            log.write_bytes(old[: len(old) * amount // 100])
        elif what == "replace":
            replace_file(log, b"".join(b"%d:%d\n" % (serial, n) for n in range(amount % 7)))
        elif what == "edit" and old:
            log.write_bytes(bytes([old[0] ^ 1]) + old[1:])
            os.utime(log, ns=(serial, serial))
        elif what in ("gone", "folder"):
            log.unlink(missing_ok=True)
            if what == "folder":
                log.mkdir()
        if tail.replaced():
            known = []
        known += list(tail.read())
        assert known == list(LogTail(log).read())


@pytest.mark.parametrize("longer", [False, True], ids=["as long as before", "longer than before"])
def test_an_edit_in_place_is_noticed(tmp_path: Path, longer: bool) -> None:
    log = tmp_path / "log"
    same_end = b" and the rest of each line is the same, as it is in logs that a program writes\n"
    log.write_bytes(b"score 3" + same_end + b"score 4" + same_end)
    tail = LogTail(log)
    follow(tail)
    with log.open("r+b") as file:
        file.write(b"score 5")
        if longer:
            file.write(b"0" + same_end + b"score 4" + same_end)
    os.utime(log, ns=(1, 1))
    assert tail.replaced()
    assert texts(list(tail.read())) == log.read_bytes().splitlines()


def test_a_reader_that_stops_half_way_reads_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthree\n")
    tail = LogTail(log)
    assert next(iter(tail.read())).data == b"one"
    rest = texts(follow(tail))
    assert rest in ([b"two", b"three"], [b"one", b"two", b"three"]), "read on, or read afresh after a rewind"
    assert texts(follow(tail)) == []


def test_a_line_that_comes_in_pieces_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = LogTail(log)
    whole = b"x" * (CHUNK + 5000) + b"\n"
    for start in range(0, len(whole), 300_000):
        with log.open("ab") as file:
            file.write(whole[start : start + 300_000])
        last = follow(tail)
    assert texts(last) == [whole[:-1]]


@pytest.mark.timeout(60)
def test_lines_over_16_mb_are_not_kept_and_cost_only_themselves(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"first\n" + b"y" * MAX_LINE_BYTES + b"\n" + b"z" * (MAX_LINE_BYTES + 1) + b"\nlast\n")
    found = list(LogTail(log).read())
    assert [None if line.data is None else len(line.data) for line in found] == [5, MAX_LINE_BYTES, None, 4]
    assert [line.index for line in found] == [0, 1, 2, 3]
    first, fits, over, last = (line.offset for line in found)
    assert (first, fits, over) == (0, 6, 6 + MAX_LINE_BYTES + 1) and read_at(log, last) == b"last"
    assert read_at(log, over) is None and len(read_at(log, fits) or b"") == MAX_LINE_BYTES


def test_an_unfinished_line_of_any_length_holds_little_memory() -> None:
    cutter = LineCutter(limit=1000)
    for _ in range(100):
        assert list(cutter.feed(b"x" * 500)) == []
    assert cutter.pending == 50_000 and len(cutter._held) <= 1000
    assert texts(list(cutter.feed(b"\nnext\n"))) == [None, b"next"] and cutter.pending == 0


def test_read_at_of_what_is_not_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_at(log, 0) is None
    log.write_bytes(b"one\nha")
    assert (read_at(log, 0), read_at(log, 4), read_at(log, 99)) == (b"one", None, None)
    assert read_at(tmp_path, 0) is None, "a folder"
