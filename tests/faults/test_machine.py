"""A machine that gives out: real small disks, real limits of open files and sizes, a clock that jumps."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import yaml

from tests.conftest import Cli, Done
from tests.faults.cases import CASES, Ready, judged, state, two_runs
from tests.faults.faults import LONG, Commands, copy_of, mounted, posix, remount, tree
from tests.making import make_bundle
from tests.standin import Action, Brain, Request, StandIn
from tests.watching import ask, put_away, wait_for
from touchstone.bundle import open_bundle

linux = pytest.mark.skipif(sys.platform != "linux", reason="tmpfs of Linux")
DAY_S = 86_400.0
JUMPS = [(name, jump_s) for jump_s in (-DAY_S, DAY_S, -40 * 365 * DAY_S) for name in ("eval", "judge")]


def limited(cli: Cli, limit: str, *words: str) -> subprocess.Popen[str]:
    """A command under a limit of the shell's `ulimit`."""
    return subprocess.Popen(
        ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", sys.executable, "-m", "touchstone", *words],
        cwd=cli.home,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_of(process: subprocess.Popen[str]) -> Done:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)


# -- disks


@linux
def test_a_disk_that_is_full_and_grows_again(cli: Cli, endpoint: StandIn) -> None:
    """A run on a disk of 64 kB, judged until nothing fits any more; then there is room."""
    disk = cli.home / "runs"
    disk.mkdir()
    config(cli, endpoint)
    with mounted(disk, "size=64k"):
        bundle = make_bundle(disk / "r", models=["m"], judged=0, events=False)
        filler = disk / "r" / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 512):
                    pass
            except OSError:
                pass
            file.truncate(file.tell() - 5 * 4096)
        done = cli("judge", "--bundle", str(bundle), "--events", code=1)
        assert "the disk is full" in done.err
        log = bundle / "judgements.jsonl"
        measured = log.read_bytes()
        assert measured.endswith(b"\n") and 0 < measured.count(b"\n") < 24
        asked = len(endpoint.chats)
        remount(disk, "size=8m")
        cli("judge", "--bundle", str(bundle), "--events")
        assert log.read_bytes().startswith(measured)
        assert len(endpoint.chats) - asked == 24 - measured.count(b"\n") + 2, "and two reports"
        view = open_bundle(bundle).refresh()
        assert view.judge.done == 24 and view.judge.finished and not view.broken_lines


def config(cli: Cli, endpoint: StandIn) -> None:
    judge = {"endpoint": endpoint.url, "model": "judge-a", "max_tokens": 300, "concurrency": 1}
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump({"judge": judge}), encoding="utf-8")


@linux
def test_a_site_on_a_disk_that_is_full(cli: Cli) -> None:
    two_runs(cli.home)
    cli("build", "--out", "clean")
    (cli.home / "public").mkdir()
    with mounted(cli.home / "public", "size=64k"):
        assert "the disk is full" in cli("build", code=1).err
        remount(cli.home / "public", "size=8m")
        cli("build")
        assert tree(cli.home / "public") == tree(cli.home / "clean")


@linux
def test_a_read_only_output_and_a_read_only_run(cli: Cli, endpoint: StandIn) -> None:
    judged(cli.home)
    config(cli, endpoint)
    (cli.home / "public").mkdir()
    with mounted(cli.home / "public", "size=8m"):
        cli("build")
        before = tree(cli.home / "public")
        make_bundle(cli.home / "runs" / "s", models=["m2"])
        remount(cli.home / "public", "ro")
        assert "read-only" in cli("build", code=1).err and tree(cli.home / "public") == before
        remount(cli.home / "public", "rw")
        cli("build")
        cli("build", "--out", "clean")
        assert tree(cli.home / "public") == tree(cli.home / "clean")
    (cli.home / "archive").mkdir()
    with mounted(cli.home / "archive", "size=8m"):
        make_bundle(cli.home / "archive" / "r", judged=5, judge="judge-a")
        remount(cli.home / "archive", "ro")
        for words in (
            ("judge", "--bundle", "archive/r"),
            ("eval", "--resume", "archive/r", "--endpoint", endpoint.url),
            ("scorecard", "archive/r"),
            ("judge-meta", "export", "archive/r"),
        ):
            assert "read-only" in cli(*words, code=1).err, words
        cli("build", "--runs", "archive", "--out", "elsewhere")
        assert (cli.home / "elsewhere" / "runs" / "r" / "index.html").is_file()


@linux
def test_serve_mends_itself_once_the_disk_has_room(cli: Cli) -> None:
    two_runs(cli.home)
    cli("build", "--out", "clean")
    (cli.home / "public").mkdir()
    with mounted(cli.home / "public", "size=64k"):
        process = cli.start("serve", "--port", "0", "--no-open")
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            status, _, body = ask(url)
            assert status == 503 and b"the disk is full" in body
            time.sleep(1)  # until the watcher, too, has found that it cannot be done
            remount(cli.home / "public", "size=8m")
            wait_for(lambda: ask(url)[0] == 200)
            assert tree(cli.home / "public") == tree(cli.home / "clean")
        finally:
            put_away(process)


@posix
def test_a_file_may_not_grow_further(cli: Cli, endpoint: StandIn) -> None:
    config(cli, endpoint)
    bundle = make_bundle(cli.home / "runs" / "r", models=["m"], judged=0, events=False)
    size = (bundle / "answers.jsonl").stat().st_size // 512
    done = end_of(limited(cli, f"-f {size // 2}", "judge"))
    log = bundle / "judgements.jsonl"
    assert done.code == 1 and log.name in done.err and "too large" in done.err
    measured = log.read_bytes()
    assert measured.endswith(b"\n") and 0 < measured.count(b"\n") < 24
    cli("judge")
    assert log.read_bytes().startswith(measured) and log.read_bytes().count(b"\n") == 24


# -- open files


@posix
def test_serve_without_a_file_left_serves_again_once_there_is(cli: Cli) -> None:
    two_runs(cli.home)
    process = limited(cli, "-n 40", "serve", "--port", "0", "--no-open")
    try:
        assert process.stdout is not None
        parts = urlsplit(process.stdout.readline().strip())
        at = (str(parts.hostname), int(parts.port or 0))
        whole = page(at)
        assert whole[0] == 200
        with ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(socket.create_connection(at, timeout=5))
            connection = stack.enter_context(socket.create_connection(at, timeout=5))
            connection.settimeout(0.5)
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                said = connection.recv(64)
            except OSError:
                said = b""
            assert not said.startswith(b"HTTP/1.1 404"), "a page that is there is not said to be missing"
            before = cpu_s(process)
            time.sleep(1)
            assert cpu_s(process) - before < 0.5, "it waits, it does not spin"
        wait_for(lambda: page(at) == whole)
    finally:
        put_away(process)


def cpu_s(process: subprocess.Popen[str]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def page(at: tuple[str, int]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*at, timeout=5)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


@posix
def test_judge_without_a_file_left_loses_nothing(cli: Cli, endpoint: StandIn) -> None:
    config(cli, endpoint)
    fields = yaml.safe_load((cli.home / "touchstone.yaml").read_text())
    fields["judge"]["concurrency"] = 32
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump(fields))
    endpoint.script = Brain(delay_s=0.1)
    bundle = make_bundle(cli.home / "runs" / "r", judged=0, events=False)
    end_of(limited(cli, "-n 24", "judge", "--bundle", "runs/r"))
    log = bundle / "judgements.jsonl"
    before = [json.loads(line) for line in log.read_bytes().splitlines()] if log.exists() else []
    cli("judge", "--bundle", "runs/r")
    after = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert len(after) == 48 and not [line for line in after if line["unscored"]]
    assert all(line in after for line in before if not line["unscored"])


# -- the clock


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize(("name", "jump_s"), JUMPS if LONG else JUMPS[::4])
def test_a_clock_that_jumps(
    commands: Commands, server: StandIn, ready: Callable[[str], Ready], name: str, jump_s: float
) -> None:
    expected = ready(name)
    home = copy_of(expected.before, commands.home)
    brain = Brain()

    def script(request: Request) -> Action:
        if request.is_chat and "Question 1?" in request.text_of("user"):
            commands.page.ahead_s = jump_s
        return brain(request)

    server.script = script
    try:
        done = commands(*CASES[name].words, *(["--events"] if name == "eval" else []))
        commands("build")
    finally:
        commands.page.ahead_s = 0
        server.script = Brain()
    assert {path: value for path, value in state(home).items() if path.startswith("runs")} == expected.after_runs
    (bundle,) = (home / "runs").iterdir()
    view = open_bundle(bundle).refresh()
    fold = view.eval if name == "eval" else view.judge
    assert fold.finished and not view.broken_lines
    for path in (home / "public").rglob("*.html"):
        assert not re.search(r"[-\u2212]\s?\d+(\.\d+)?\s?(s|min|h|ms)\b", text_of(path)), path
    assert not re.search(r"-\d", done.out.replace(bundle.name, "")), done.out


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(style|script).*?</\1>", "", page.read_text(encoding="utf-8")))


@pytest.mark.usefixtures("shim")
def test_serve_goes_on_while_the_clock_jumps(commands: Commands, tmp_path: Path) -> None:
    home = commands.home
    copy_of(tmp_path, home)
    two_runs(home)
    process = commands.start("serve", "--port", "0", "--no-open")
    try:
        wait_for(lambda: commands.said.startswith("http://"))
        url = commands.said.strip()
        for jump_s in (-DAY_S, DAY_S, 0.0):
            commands.page.ahead_s = jump_s
            name = f"run{jump_s:.0f}"
            make_bundle(home / "runs" / name, models=["m"])
            wait_for(lambda name=name: ask(f"{url}runs/{name}/")[0] == 200)  # type: ignore[misc]
            began = time.monotonic()
            assert ask(url)[0] == 200 and time.monotonic() - began < 30
    finally:
        commands.page.ahead_s = 0
        commands.kill(process)
