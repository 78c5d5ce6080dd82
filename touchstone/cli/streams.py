"""Standard output and standard error that may go away while a run goes on.

`touchstone run | head -3` is not a wish to end after three lines: hours of answers are not given up because nobody
reads what is said about them, nor because the terminal was closed. What cannot be written is dropped; what a full
disk swallowed is said in the end.
"""

from __future__ import annotations

import errno
import io
import sys
from typing import Any, Final

READER_LEFT: Final = (errno.EPIPE, errno.EINVAL)
"""EINVAL: as Windows says it."""


class _Lossy(io.FileIO):
    """Takes everything; `lost` is why some of it went nowhere."""

    lost: OSError | None = None
    terminal = False

    def write(self, data: Any) -> int:
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


_lossy: dict[str, _Lossy] = {}


def protect() -> None:
    """Nothing that is said from now on ends a run."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        # A pipe under Windows or LANG=C knows no umlauts; a question mark is better than a traceback.
        stream.reconfigure(errors="replace")
        raw = getattr(stream.buffer, "raw", stream.buffer)
        if type(raw) is not io.FileIO:
            continue  # the console of Windows, which is no file
        stream.flush()
        _lossy[name] = _Lossy(stream.fileno(), "wb", closefd=False)
        _lossy[name].terminal = stream.isatty()
        fresh = io.TextIOWrapper(
            _lossy[name] if raw is stream.buffer else io.BufferedWriter(_lossy[name]),
            stream.encoding,
            "replace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, fresh)


def loss() -> str | None:
    """Why what we said on standard output did not arrive; None if it did, or if its reader had seen enough."""
    if "stdout" not in _lossy:
        return None
    sys.stdout.flush()
    lost = _lossy["stdout"].lost
    if lost is None or lost.errno in READER_LEFT or _lossy["stdout"].terminal:
        return None
    return f"standard output: {(lost.strerror or str(lost)).lower()}; the work is done, but not all was said"
