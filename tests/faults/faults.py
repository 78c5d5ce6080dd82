"""The tools: the page that says which calls fail, the library that makes them fail, and commands that run under it."""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tests.conftest import ROOT, Cli, Done

LONG: Final = os.environ.get("TOUCHSTONE_FAULTS") == "long"
"""`make faults`: every call fails once, and two hundred kills for each command."""

HERE: Final = Path(__file__).parent
WRITE, CREATE, SYNC, RENAME, REMOVE, READ = 1, 2, 4, 8, 16, 32
"""Kinds of calls, as in shim.c."""
KILL: Final = -9
"""In the place of an errno: the whole process group ends there, as by kill -9."""
FOR_EVER: Final = 2**62

KINDS: Final = {
    errno.ENOSPC: WRITE | CREATE | SYNC | RENAME,
    errno.EIO: WRITE | CREATE | SYNC | RENAME | REMOVE | READ,
    errno.EACCES: CREATE | RENAME | REMOVE | READ,
    errno.EROFS: CREATE | RENAME | REMOVE,
    errno.EMFILE: CREATE | READ,
    KILL: WRITE | CREATE | SYNC | RENAME | REMOVE,
}
"""Which calls an error can come from."""

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")


class _Fields(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("armed", "count", "first", "last", "error", "kinds", "half", "ahead_ns")),
        ("counts", ctypes.c_int64 * 6),
        ("under", ctypes.c_char * 2048),
    ]


class Page:
    """What the library and we both see."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(ctypes.sizeof(_Fields)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.fields = _Fields.from_buffer(self._map)

    def arm(
        self, under: Path, number: int, error: int, *, once: bool = False, half: bool = False, kinds: int | None = None
    ) -> None:
        """The `number`-th call below `under` fails, and all after it unless `once`; `half`: a write takes half.

        `kinds`: of calls; by default those that the error can come from.
        """
        fields = self.fields
        fields.under = os.fsencode(under)
        fields.count, fields.half = 0, half
        fields.counts = (ctypes.c_int64 * 6)()
        fields.first, fields.last = number, number if once else FOR_EVER
        fields.error, fields.kinds = error, KINDS[error] if kinds is None else kinds
        fields.armed = 1

    @property
    def count(self) -> int:
        """Calls so far that could have failed."""
        return int(self.fields.count)

    def disarm(self) -> dict[int, int]:
        """All is well again; errno to how many calls could have had it."""
        self.fields.armed = 0
        counts = [int(count) for count in self.fields.counts]
        return {error: sum(n for bit, n in enumerate(counts) if kinds & 1 << bit) for error, kinds in KINDS.items()}

    @property
    def ahead_s(self) -> float:
        """Seconds that the clock on the wall is ahead."""
        return float(self.fields.ahead_ns) / 1e9

    @ahead_s.setter
    def ahead_s(self, seconds: float) -> None:
        self.fields.ahead_ns = int(seconds * 1e9)


@functools.cache
def library() -> Path | None:
    """The compiled library; None where it cannot be."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        return None
    made = Path(tempfile.mkdtemp(prefix="faults-")) / "shim.so"
    atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", made, HERE / "shim.c", "-ldl"],
        check=True,
    )
    return made


class Commands:
    """`touchstone` in a folder, from a warm process; under the library, where there is one."""

    def __init__(self, home: Path, beside: Path) -> None:
        """`beside`: a folder for what the commands say."""
        self.home = home
        self.page = Page(beside / "page")
        self._out, self._err = beside / "out", beside / "err"
        self._running: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.launcher"],
            cwd=ROOT,
            env=Cli(home).environment(
                {"LD_PRELOAD": str(made), "FAULTS_PAGE": str(self.page.path)} if (made := library()) else None
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, asked: dict[str, object], of: str) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline())[of])

    def start(self, *words: str) -> int:
        """The process; its group has the same number."""
        for path in (self._out, self._err):
            path.write_bytes(b"")
        asked: dict[str, object] = {
            "start": words,
            "home": str(self.home),
            "out": str(self._out),
            "err": str(self._err),
        }
        pid = self._ask(asked, "pid")
        self._running.add(pid)
        return pid

    def wait(self, pid: int) -> Done:
        code = self._ask({"wait": pid}, "code")
        self._running.discard(pid)
        done = Done(code, self._out.read_text(errors="replace"), self._err.read_text(errors="replace"))
        assert "Traceback" not in done.err, done.err
        return done

    def kill(self, pid: int) -> Done:
        """At once, with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return self.wait(pid)

    @property
    def said(self) -> str:
        """What the running command wrote to stdout so far."""
        return self._out.read_text(errors="replace")

    def __call__(self, *words: str, code: int | None = 0) -> Done:
        done = self.wait(self.start(*words))
        assert code is None or done.code == code, f"exit {done.code}\n{done.out}\n{done.err}"
        return done

    @staticmethod
    def plain(home: Path, *words: str) -> Done:
        """A command without the library."""
        return Cli(home)(*words, code=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()


def copy_of(source: Path, target: Path) -> Path:
    """`target` as a fresh copy of the folder `source`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target


def chosen(total: int, count: int, seed: str) -> list[int]:
    """Which of `total` calls fail: all of them in the long version, else `count`, always the same for one seed."""
    if LONG or count >= total:
        return list(range(1, total + 1))
    return sorted(random.Random(seed).sample(range(1, total + 1), count))


def files_in(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Each file below with its bytes, without those that go while we look."""
    for inside, _, names in os.walk(folder):
        for name in names:
            path = Path(inside, name)
            with suppress(FileNotFoundError):
                yield path, path.read_bytes()


def tree(folder: Path) -> dict[str, bytes]:
    """Path to bytes of all files below."""
    return {path.relative_to(folder).as_posix(): data for path, data in files_in(folder)}


def leftovers(folder: Path) -> list[str]:
    """Half-written files and folders of ours below `folder`."""
    return [path.relative_to(folder).as_posix() for path in folder.rglob(".*.tmp")]


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A tmpfs at `folder`. Skips the test where nobody may mount one."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)
