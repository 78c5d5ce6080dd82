"""Fixtures that start real things: the command line as a process, the stand-in server, the real model server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from tests.standin import Brain, StandIn

# A busy machine is no fault. A red build is somebody's doing, so the inputs are the same every time; to look for new
# ones: HYPOTHESIS_PROFILE=random make test
settings.register_profile("touchstone", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "touchstone"))

ROOT = Path(__file__).parent.parent


class Cli:
    """`touchstone` as a person types it, in a folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """No colours, no proxies, no API keys of the machine."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**kept, "NO_COLOR": "1", "PYTHONWARNINGS": "error", **(extra or {})}

    def start(self, *args: str, env: Mapping[str, str] | None = None, group: bool = False) -> subprocess.Popen[str]:
        """The command as a running process; `group`: in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "touchstone", *args],
            cwd=self.home,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            process_group=0 if group else None,
        )

    def __call__(self, *args: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Done:
        """Run to the end; `code` is the exit code that is expected (None: any)."""
        with self.start(*args, env=env) as process:
            out, err = process.communicate(timeout=120)
        done = Done(process.returncode, out, err)
        assert "Traceback" not in err, err
        if code is not None:
            assert done.code == code, f"exit {done.code}\n{out}\n{err}"
        return done


class Done:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command line, working in an empty folder."""
    return Cli(tmp_path)


@pytest.fixture
def endpoint() -> Iterator[StandIn]:
    """A stand-in model server whose answers depend on the question alone."""
    with StandIn(Brain()) as server:
        yield server
