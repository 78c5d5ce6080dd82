"""Runs shared out over several processes of this machine. A process that dies costs nothing: its runs are made here."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from touchstone.making import Done, Job, Settings, read_and_make


def _in_worker() -> None:
    # Ctrl-C goes to every process of the terminal; who ends the others is the first one's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def shared(
    jobs: list[Job], settings: Settings, workers: int, unreadable: Callable[[Job, OSError], None]
) -> Iterator[tuple[Job, Done]]:
    """Each job with what became of it, in any order; `unreadable` hears of runs that cannot be read.

    Raises TouchstoneError.
    """
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _in_worker)
    left: list[Job] = []
    try:
        # The longest first: whoever gets one last should not keep the others waiting.
        futures: dict[Future[Done], Job] = {pool.submit(read_and_make, job, settings): job for job in jobs}
        for future in as_completed(futures):
            job = futures[future]
            try:
                yield job, future.result()
            except BrokenProcessPool:
                left.append(job)
            except OSError as error:
                unreadable(job, error)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    for job in left:
        try:
            yield job, read_and_make(job, settings)
        except OSError as error:
            unreadable(job, error)
