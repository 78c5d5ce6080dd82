"""Processes measured from outside: wall time, processor time with all descendants, memory. POSIX only."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).parent.parent
PYTHON: Final = sys.executable
LONG_S: Final = 20.0
"""A command that takes longer is not warmed up and measured fewer times: there the noise is small beside the figure."""


class Failed(RuntimeError):
    """The measured command did not do its work; the message says why."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This checkout's touchstone, whatever is installed; no colours, no proxies."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **(extra or {})}


def touchstone(*args: str) -> list[str]:
    """The command line of a touchstone command."""
    return [PYTHON, "-m", "touchstone", *args]


@dataclass
class Times:
    """What several runs of one command took. Seconds and bytes."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """User and system time of the process and of all its descendants."""
    largest: int = 0
    """Peak resident bytes of the largest single process, over all runs."""
    peak: int | None = None
    """Peak proportional bytes of all its processes together, sampled in a run that is not timed."""

    @property
    def s(self) -> float:
        return statistics.median(self.wall)

    @property
    def cpu_s(self) -> float:
        return statistics.median(self.cpu)


def once(command: Sequence[str], cwd: Path, limit_s: float = 3600.0) -> tuple[float, float, int, str]:
    """(wall, cpu, largest process, stdout) of one run. Raises Failed."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        texts: dict[str, bytes] = {}
        assert process.stdout is not None and process.stderr is not None
        reader = threading.Thread(target=lambda: texts.update(err=process.stderr.read()))  # type: ignore[union-attr]
        reader.start()
        texts["out"] = process.stdout.read()
        reader.join()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        said = texts["err"].decode("utf-8", "replace").strip().splitlines()
        raise Failed(f"{' '.join(command[-4:])}: exit {process.returncode}: {' '.join(said[-3:])[:500]}")
    scale = 1 if sys.platform == "darwin" else 1024
    cpu = usage.ru_utime + usage.ru_stime
    return wall, cpu, usage.ru_maxrss * scale, texts["out"].decode("utf-8", "replace")


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def proportional(pid: int) -> int:
    """Bytes of a process and its descendants, pages that they share counted once."""
    pids = [pid]
    with suppress(psutil.Error):
        pids += [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return sum(_proportional(each) for each in pids)


def peak_of(command: Sequence[str], cwd: Path) -> int:
    """Peak of all processes of a command together, sampled."""
    peak = 0
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            peak = max(peak, proportional(process.pid))
            time.sleep(0.05)
    return peak


@dataclass(frozen=True)
class Contender:
    """A command to be measured, and what makes its folder ready before each run (not timed)."""

    command: Sequence[str]
    cwd: Path
    before: Callable[[], None] = lambda: None


def in_turn(*contenders: Contender, runs: int, memory: bool = False) -> list[Times]:
    """Each contender in turn, `runs` times after one warm-up; fewer where one takes long."""
    times = [Times() for _ in contenders]
    warm = True
    done = 0
    while done < runs:
        slowest = 0.0
        for contender, mine in zip(contenders, times, strict=True):
            contender.before()
            wall, cpu, largest, _ = once(contender.command, contender.cwd)
            slowest = max(slowest, wall)
            mine.wall.append(wall)
            mine.cpu.append(cpu)
            mine.largest = max(mine.largest, largest)
        done += 1
        if warm:
            warm = False
            if slowest > 3 * LONG_S:
                break
            if slowest > LONG_S:
                runs = min(runs, 2)
            else:
                times, done = [Times() for _ in contenders], 0
    if memory:
        for contender, mine in zip(contenders, times, strict=True):
            contender.before()
            mine.peak = peak_of(contender.command, contender.cwd)
    return times


def tree_bytes(root: Path, suffixes: tuple[str, ...] | None = None) -> int:
    """Bytes of the files below `root`, optionally of some suffixes only."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            if suffixes is None or name.endswith(suffixes):
                total += (Path(folder) / name).stat().st_size
    return total


def tree_count(root: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(root))
