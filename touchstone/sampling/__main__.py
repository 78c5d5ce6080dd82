"""The sampling process: one line a second into resources.jsonl, until its parent ends it or ends itself.

It is told through its standard input: a line there asks for a last sample and the end; the bare end of it means that
the parent is gone, however that happened, and nothing more is written. On standard output it gives the most memory
used so far, whenever that grows, and a remark where the log cannot be written.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from touchstone.errors import MachineError
from touchstone.sampling.probes import Machine
from touchstone.store.write import JsonlWriter


class _Parent:
    """What the parent wants, as its pipe tells."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self.gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            self.gone = not sys.stdin.buffer.readline()
        except (OSError, ValueError):
            self.gone = True
        self.changed.set()


class _Log:
    """resources.jsonl. A full disk costs lines, never the sampling; the first trouble is told."""

    def __init__(self, path: Path | None) -> None:
        self._told = path is None
        self._writer: JsonlWriter | None = None
        if path is not None:
            try:
                self._writer = JsonlWriter(path, sync=False, cut_half=False)
            except MachineError as error:
                self._tell(error)

    def append(self, sample: dict[str, object]) -> None:
        if self._writer is not None:
            try:
                self._writer.append_line(json.dumps(sample, ensure_ascii=False, allow_nan=False).encode("utf-8"))
            except (MachineError, ValueError) as error:
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            print(error, flush=True)


def main() -> None:
    """Samples until the end. Takes `--interval SECONDS` and, to record, `--log FILE`."""
    # Ctrl-C is for the run, which then says what is to become of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="python -m touchstone.sampling")
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    parent, machine, peak = _Parent(), Machine(), -1
    log = _Log(options.log)
    while True:
        last = parent.changed.wait(0)
        if parent.gone:
            return
        sample = machine.sample(time.time(), time.monotonic())
        log.append(sample)
        used = sample["ram_used_bytes"]
        if used is not None and used > peak:
            peak = used
            print(peak, flush=True)
        if last:
            return
        parent.changed.wait(options.interval)


if __name__ == "__main__":
    try:
        main()
    except OSError:
        # Nobody reads us any more. The interpreter would try to flush once more, and fail aloud.
        os._exit(0)
