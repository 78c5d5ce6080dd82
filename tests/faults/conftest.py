"""Commands from a warm process, the server they ask, and cases that are made once."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.cases import CASES, Ready, config, state
from tests.faults.faults import FOR_EVER, Commands, copy_of, library
from tests.standin import Brain, StandIn


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    if sys.platform != "linux":
        pytest.skip("commands are forked from a warm process, which other systems' libraries do not take well")
    beside = tmp_path_factory.mktemp("faults")
    home = beside / "home"
    home.mkdir()
    with Commands(home, beside) as ready:
        yield ready


@pytest.fixture
def shim() -> None:
    """Skips the test where calls cannot be made to fail."""
    if library() is None:
        pytest.skip("needs Linux and a C compiler")


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn(Brain()) as ready:
        yield ready


@pytest.fixture(scope="module")
def ready(commands: Commands, server: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ready]:
    known: dict[str, Ready] = {}

    def get(name: str) -> Ready:
        if name not in known:
            case, before = CASES[name], tmp_path_factory.mktemp("before") / "home"
            before.mkdir()
            config(before, server.port)
            case.prepare(before)
            copy_of(before, commands.home)
            commands.page.arm(commands.home, FOR_EVER, errno.EIO)
            began = time.monotonic()
            commands(*case.words)
            took = time.monotonic() - began
            known[name] = Ready(before, state(commands.home), commands.page.disarm(), took)
        return known[name]

    return get
