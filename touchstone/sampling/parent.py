"""The run's side of the sampling process: starts it, hears the peak, ends it, and is never harmed by it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

INTERVAL_S: Final = 1.0
END_S: Final = 5.0
"""How long the process may take for its last sample; then it is killed."""


class Sampler:
    """A context in which the machine is watched. `peak` is the most memory used, bytes; None while unknown."""

    def __init__(
        self, log: Path | None = None, note: Callable[[str], None] = lambda text: None, interval_s: float = INTERVAL_S
    ) -> None:
        """`log`: the resources.jsonl to write, None to find the peak only. `note` is called from another thread."""
        self._log = log
        self._note = note
        self._interval_s = interval_s
        self._ending = False
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self.peak: int | None = None

    @property
    def pid(self) -> int | None:
        """The process that samples; None where it could not be started."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Self:
        # -P: a module of the user's in the working folder must not stand in for one of Python's.
        command = [sys.executable, "-P", "-m", "touchstone.sampling", "--interval", str(self._interval_s)]
        command += [] if self._log is None else ["--log", str(self._log)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            self._note(f"the machine's load is not recorded: {error.strerror or error}; the run goes on")
            return self
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()
        return self

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Reads to the end and takes the process off the table at once, whenever that is: no zombie is left."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                text = line.decode("utf-8", "replace").strip()
                if text.isdecimal():
                    self.peak = max(self.peak or 0, int(text))
                elif text:
                    self._note(f"the machine's load is not recorded: {text}")
        process.wait()
        if not self._ending:
            self._note(
                "the machine's load is no longer recorded, as the process that did so has ended; the run goes on"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, listener = self._process, self._listener
        if process is None or listener is None:
            return
        self._ending = True
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(b"end\n")
        with suppress(OSError):
            process.stdin.close()
        listener.join(END_S)
        if listener.is_alive():
            process.kill()
            listener.join(END_S)
