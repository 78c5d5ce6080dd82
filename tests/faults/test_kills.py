"""Commands killed -9 at random moments: what was measured stays, no page is ever half, the next run is right."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.faults.cases import CASES, Ready, next_words, state, two_runs, whole_lines
from tests.faults.faults import LONG, Commands, copy_of, files_in, leftovers, posix, tree
from tests.making import verdict

KILLS = 200 if LONG else 2
KILLED = ("eval", "judge", "judge, once more", "judge-meta ingest", "build", "build, once more")
IN_A_ROW = 4
"""So often at most, before a run is left to end."""

pytestmark = posix


@pytest.mark.parametrize(
    "name", ["eval", "judge", "judge, once more", "judge-meta ingest", "build", "build, once more"]
)
def test_killed_at_any_moment(commands: Commands, ready: Callable[[str], Ready], name: str) -> None:
    case, expected = CASES[name], ready(name)
    chance = random.Random(name)
    kills = 0
    while kills < KILLS:
        home = copy_of(expected.before, commands.home)
        with whole_pages(home / "public"):
            for _ in range(chance.randint(1, IN_A_ROW)):
                measured = whole_lines(home)
                process = commands.start(*next_words(case, home))
                time.sleep(chance.uniform(0, expected.took_s * 1.1))
                commands.kill(process)
                kills += 1
                after = whole_lines(home)
                assert all(set(lines) <= set(after[log]) for log, lines in measured.items())
            measured = whole_lines(home)
            commands(*next_words(case, home))
        assert state(home) == expected.after
        after = whole_lines(home)
        assert all(set(lines) <= set(after[log]) for log, lines in measured.items())
        assert not [path for path in leftovers(home) if not path.startswith("runs/.")]


def is_page(data: bytes) -> bool:
    return bool(data) and is_whole(data)


def is_whole(data: bytes) -> bool:
    """Whether a page, or a file of JSON, is there to its end."""
    if data.lstrip().startswith((b"<!DOCTYPE", b"<html")):
        return data.rstrip().endswith(b"</html>")
    return data.endswith(b"\n") or not data


@contextmanager
def whole_pages(folder: Path) -> Iterator[None]:
    """Looks at the files of a site all the while: each one that can be opened is whole."""
    end = threading.Event()
    half: list[Path] = []

    def look() -> None:
        while not end.wait(0.02):
            half.extend(path for path, data in files_in(folder) if path.suffix == ".html" and not is_page(data))

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    try:
        yield
    finally:
        end.set()
        looker.join()
    assert not half


class Reader:
    """Reads pages from a server all the while, from several threads, until it is killed."""

    PATHS = ("", "runs/r/", "runs/r/judge/", "runs/s/", "data/runs.json", "assets/search.js")

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._at = (str(parts.hostname), int(parts.port or 80))
        self.whole = 0
        self.half: list[str] = []
        self._threads = [threading.Thread(target=self._read, args=(number,), daemon=True) for number in range(2)]
        self._end = threading.Event()
        for thread in self._threads:
            thread.start()

    def _read(self, number: int) -> None:
        while not self._end.is_set():
            for path in self.PATHS[number::2]:
                connection = http.client.HTTPConnection(*self._at, timeout=10)
                try:
                    connection.request("GET", f"/{path}")
                    response = connection.getresponse()
                    data = response.read()
                except (OSError, http.client.HTTPException):
                    continue  # cut off by the kill: nobody takes that for a page
                finally:
                    connection.close()
                if response.status == 200 and not is_whole(data):
                    self.half.append(path)
                self.whole += response.status == 200
            time.sleep(0.01)

    def end(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


def test_serve_killed_at_any_moment(commands: Commands, tmp_path: Path) -> None:
    chance = random.Random(4)
    before = tmp_path / "before"
    before.mkdir()
    two_runs(before)
    home = copy_of(before, commands.home)
    pages = 0
    for kill in range(KILLS):
        if kill % 10 == 0:
            home = copy_of(before, commands.home)
        log = home / "runs" / "r" / "judgements.jsonl"
        row = json.loads(log.read_bytes().splitlines()[0])
        process = commands.start("serve", "--port", "0", "--no-open")
        while not commands.said.startswith("http://"):
            time.sleep(0.01)
        reader = Reader(commands.said.strip())
        end = time.monotonic() + chance.uniform(0, 1.0)
        while time.monotonic() < end:
            # A run goes on, and is rewritten now and then.
            line = json.dumps(verdict(row, 0, chance.randint(1, 5), "So.", "judge-a")).encode() + b"\n"
            if chance.random() < 0.1:
                fresh = log.with_name(".fresh")
                fresh.write_bytes(log.read_bytes() + line)
                os.replace(fresh, log)  # noqa: PTH105
            else:
                with log.open("ab") as file:
                    file.write(line)
            time.sleep(0.02)
        commands.kill(process)
        reader.end()
        assert not reader.half
        pages += reader.whole
        assert all(is_whole(data) for path, data in tree(home / "public").items() if path.endswith(".html"))
        if kill % 10 == 9 or kill == KILLS - 1:
            commands("build")
            built = tree(home / "public")
            commands("build", "--out", "clean")
            assert built == tree(home / "clean")
    assert pages
