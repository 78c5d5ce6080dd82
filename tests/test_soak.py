"""Monitor, browser, server and judge, killed in every order: what is left goes on, and in the end nothing is left."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests.conftest import Cli
from tests.making import make_bundle
from tests.standin import Brain, StandIn, after
from tests.watching import Tab, answers, gone, monitors_of, page, put_away, wait_for
from touchstone.bundle import open_bundle

PARTS = ("monitor", "browser", "server", "judge")
# A monitor does not outlive its judge: when it is killed after that makes no difference.
ORDERS = [order for order in itertools.permutations(PARTS) if order.index("monitor") <= order.index("judge") + 1]
AT_ONCE = 3
"""Orders that are gone through side by side; most of their time is waiting."""
MONITOR = "runs/r/judge/index.html"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@pytest.fixture
def slow_judge() -> Iterator[StandIn]:
    """A judge that takes longer than anything here, a fraction of a second for each verdict."""
    brain = Brain()
    with StandIn(lambda request: after(0.3, brain(request)) if request.is_chat else brain(request)) as server:
        yield server


class Scene:
    """One run with all that looks at it."""

    def __init__(self, home: Path, endpoint: StandIn, stack: ExitStack) -> None:
        # The judge works from a folder of its own, so that the server beside it does not stand in for the monitor.
        self.bundle = make_bundle(home / "runs" / "r", repeats=2, judged=0, events=False)
        self.home = home / "judge"
        self.home.mkdir()
        config = {"runs": "../runs", "judge": {"endpoint": endpoint.url, "model": "judge-a", "max_tokens": 300}}
        (self.home / "touchstone.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.server = self._start(stack, home, "serve", "--port", "0", "--no-open")
        self.judge = self._start(stack, self.home, "judge", "--bundle", str(self.bundle), "--web", "--no-open")
        self.root, self.live = self._address(self.server), self._address(self.judge)
        (self.monitor,) = monitors_of(self.judge)
        self.tabs = [Tab(self.root), Tab(self.live)]
        for url in (self.root + MONITOR, self.live):
            page(url)
        wait_for(self.verdicts)
        self.everything = [psutil.Process(self.server.pid), psutil.Process(self.judge.pid), self.monitor]

    def _start(self, stack: ExitStack, home: Path, *words: str) -> subprocess.Popen[str]:
        process = Cli(home).start(*words)
        stack.callback(put_away, process)
        return process

    @staticmethod
    def _address(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), process.stderr.read()
        return url

    def kill(self, part: str) -> None:
        """As hard as can be."""
        match part:
            case "browser":
                for tab in self.tabs:
                    tab.kill()
            case "monitor":
                with suppress(psutil.NoSuchProcess):
                    self.monitor.kill()
            case _:
                process = self.server if part == "server" else self.judge
                process.send_signal(signal.SIGKILL)
                process.wait()

    def check(self, dead: set[str]) -> None:
        """Whatever was not killed does what it is there for."""
        if "judge" in dead:
            wait_for(lambda: gone(self.monitor))
            assert not answers(self.live)
        else:
            done = self.verdicts()
            wait_for(lambda: self.verdicts() > done)
            assert self.judge.poll() is None
            if "monitor" in dead:
                wait_for(lambda: not monitors_of(self.judge))
            else:
                assert "<progress" in page(self.live)
        if "server" in dead:
            assert not answers(self.root)
        else:
            assert "<progress" in page(self.root + MONITOR)
            assert self.server.poll() is None

    def verdicts(self) -> int:
        log = self.bundle / "judgements.jsonl"
        return log.read_bytes().count(b"\n") if log.exists() else 0


def go_through(order: tuple[str, ...], home: Path, endpoint: StandIn) -> None:
    home.mkdir()
    with ExitStack() as stack:
        scene = Scene(home, endpoint, stack)
        dead: set[str] = set()
        for part in order:
            scene.kill(part)
            dead.add(part)
            scene.check(dead)
        assert all(gone(process) for process in scene.everything)
    # What was judged is there, line by line.
    view = open_bundle(scene.bundle).refresh()
    assert view.judge.done == scene.verdicts() > 0 and view.broken_lines == 0


def test_in_every_order(tmp_path: Path, slow_judge: StandIn) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {
            "-".join(order): pool.submit(go_through, order, tmp_path / "-".join(order), slow_judge) for order in ORDERS
        }
    failed = {name: repr(run.exception()) for name, run in runs.items() if run.exception() is not None}
    assert not failed, failed
    ours = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])]
    assert [process for process in ours if process.pid != os.getpid() and not gone(process)] == []
