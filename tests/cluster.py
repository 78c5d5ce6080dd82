"""A real Dask cluster on loopback, each part a process of its own that can be killed.

As a program: `python cluster.py scheduler` prints its address, `python cluster.py worker ADDRESS` joins it; both end
with their standard input.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Cluster:
    """A scheduler, and workers that one may add and kill."""

    scheduler: subprocess.Popen[str]
    address: str
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def add(self, cwd: Path, path: Path | None = None) -> None:
        """A worker in this working folder that looks for packages in `path` first."""
        env = dict(os.environ) if path is None else {**os.environ, "PYTHONPATH": str(path)}
        self.workers.append(_start(["worker", self.address], cwd, env))

    def wait(self) -> None:
        """Until all workers have joined."""
        for worker in self.workers:
            assert worker.stdout is not None and worker.stdout.readline() == "joined\n"


def _start(args: list[str], cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), *args],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=cwd, env=env,
    )  # fmt: skip


@contextmanager
def cluster(cwd: Path, workers: int) -> Iterator[Cluster]:
    """For as long as the context lasts."""
    with ExitStack() as stack:
        scheduler = _start(["scheduler"], cwd, dict(os.environ))
        stack.callback(_end, scheduler)
        assert scheduler.stdout is not None
        made = Cluster(scheduler, scheduler.stdout.readline().strip())
        stack.callback(_end_all, made.workers)
        for _ in range(workers):
            made.add(cwd)
        made.wait()
        yield made


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _end_all(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        _end(process)


async def main(kind: str, address: str | None = None) -> None:
    from distributed import Scheduler, Worker

    if kind == "scheduler":
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
            print(scheduler.address, flush=True)
            await asyncio.to_thread(sys.stdin.read)
    else:
        async with Worker(address, nthreads=1, host="127.0.0.1", dashboard=False):
            print("joined", flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
