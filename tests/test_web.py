"""`judge --web`, `eval --web`, `run --web` as people type them: one line more, a live page, and never any harm."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.conftest import Cli
from tests.making import make_bundle
from tests.standin import Brain, Request, StandIn, after
from tests.test_chain import write_project
from tests.watching import Tab, answers, ask, gone, monitors_of, page, put_away, wait_for
from touchstone import monitor as run_side
from touchstone.live.presence import announced, covering, proof
from touchstone.monitor import Monitor, Web

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and terminals")
URL = re.compile(r"http://127\.0\.0\.1:\d+/runs/[^/\s]+/(judge|eval)/index\.html")


def slowly(seconds: float) -> Callable[[Request], Any]:
    """The usual answers, each after a while."""
    brain = Brain()
    return lambda request: after(seconds, brain(request)) if request.is_chat else brain(request)


@pytest.fixture
def bundle(cli: Cli, endpoint: StandIn) -> Path:
    """24 answers, none judged, and a config that names the judge."""
    judge = {"endpoint": endpoint.url, "model": "judge-a", "max_tokens": 300}
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump({"judge": judge}), encoding="utf-8")
    return make_bundle(cli.home / "runs" / "r", models=("m-one",), judged=0, events=False)


@contextmanager
def running(cli: Cli, *args: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command with --web that is in the middle of its run: the process, and the address that it told."""
    process = cli.start(*args, "--web", "--no-open", **options)
    try:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline()
        if not url:
            pytest.fail(process.stderr.read())
        yield process, url.rstrip("\n")
    finally:
        put_away(process)


def done_in(url: str) -> int:
    found = re.search(r'<progress max="\d+" value="(\d+)"', page(url))
    return int(found[1]) if found else 0


# -- what the run shows, and what it does not change


def test_judge_tells_one_address_and_the_page_grows(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    with running(cli, "judge") as (process, url):
        assert URL.fullmatch(url) and url.endswith("/runs/r/judge/index.html")
        tab = Tab(url)
        first = done_in(url)
        assert tab.change() == ["runs/r/judge/index.html"]
        assert first <= done_in(url) < 24 and "No end is recorded" in page(url)
        (watched,) = monitors_of(process)
        endpoint.script = Brain()
        tab.kill()
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and "http://" not in out + err
        assert out.startswith("runs/r: 24 verdicts") and err.rstrip().endswith("next: touchstone build")
        wait_for(lambda: gone(watched) and not answers(url))


def test_eval_shows_the_machine_too(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = slowly(1.0)
    with running(cli, "eval") as (process, url):
        assert URL.fullmatch(url) and url.endswith("/eval/index.html")
        assert "of 24 answers are in." in page(url) and "No end is recorded" in page(url)
        endpoint.script = Brain()
        out, _ = process.communicate(timeout=60)
    (folder,) = (cli.home / "runs").iterdir()
    assert process.returncode == 0 and out.startswith(f"runs/{folder.name}: 24 of 24 answers (24 ok)\n")
    assert "http://" not in out
    assert {"events.jsonl", "resources.jsonl"} <= {path.name for path in folder.iterdir()}


def test_run_has_one_page_for_both(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = slowly(0.3)
    with running(cli, "run") as (process, url):
        judged = url.replace("/eval/", "/judge/")
        wait_for(lambda: "24 answers are in." in page(url) and done_in(judged) > 0)
        endpoint.script = Brain()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "http://" not in out
    assert (cli.home / "public" / "index.html").is_file()


def without_times(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return re.sub(r'"ts":[0-9.e+]+|created: .*|"total_s":[0-9.e+-]+', "", text)


def test_console_and_files_are_those_of_a_run_without_a_page(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    files: dict[str, dict[str, str]] = {}
    consoles = {}
    for name, extra in {"plain": [], "events": ["--events"], "web": ["--web", "--no-open"]}.items():
        done = cli("judge", "--restart", *extra)
        for path in bundle.glob("*.old"):
            path.unlink()
        consoles[name] = (done.out, re.sub(r".*set aside.*\n", "", done.err))
        files[name] = {path.name: without_times(path) for path in bundle.iterdir() if path.name[0] != "."}
    assert consoles["plain"] == consoles["events"]
    url, _, rest = consoles["web"][0].partition("\n")
    assert URL.fullmatch(url) and (rest, consoles["web"][1]) == consoles["plain"]
    assert files["web"] == files["events"] and "judge_events.jsonl" in files["web"]
    assert files["plain"] == {name: text for name, text in files["web"].items() if name != "judge_events.jsonl"}
    assert not (cli.home / ".touchstone").exists()


def test_without_web_nothing_is_started(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(0.05)
    process = cli.start("judge")
    seen: list[psutil.Process] = []
    while process.poll() is None:
        seen += monitors_of(process)
        time.sleep(0.05)
    out, _ = process.communicate()
    assert process.returncode == 0 and not seen and "http://" not in out
    assert not (bundle / "judge_events.jsonl").exists()


def test_a_port_without_a_page_is_a_mistake(cli: Cli, bundle: Path) -> None:
    done = cli("judge", "--port", "8000", code=2)
    assert "add --web" in done.err


def test_languages_and_time_zone_are_those_of_the_site(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    config = yaml.safe_load((cli.home / "touchstone.yaml").read_text())
    config |= {"lang": ["de", "en"], "timezone": "Asia/Tokyo"}
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump(config))
    endpoint.script = slowly(1.0)
    with running(cli, "judge") as (_, url):
        assert '<html lang="de">' in page(url)
        assert '<html lang="en">' in page(url.replace("/runs/", "/en/runs/"))


# -- the run goes on, whatever becomes of the page


@posix
def test_a_monitor_that_dies_costs_one_line(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    with running(cli, "judge") as (process, url):
        (watched,) = monitors_of(process)
        watched.kill()
        wait_for(lambda: not monitors_of(process))  # no zombie either, while the run goes on
        assert process.poll() is None
        endpoint.script = Brain()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.startswith("runs/r: 24 verdicts")
    assert [line for line in err.splitlines() if "live page" in line] == [
        "the live page is gone: its process ended with -9; the run goes on without it"
    ]
    assert not answers(url)


def test_a_taken_port_costs_one_line(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("judge", "--web", "--no-open", "--port", str(port))
    assert done.out.startswith("runs/r: 24 verdicts")
    (line,) = (line for line in done.err.splitlines() if "live page" in line)
    assert line.startswith(f"no live page: port {port}: ") and line.endswith("the run goes on without it")


class Heard:
    """What a monitor said."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.urls: list[str] = []

    def monitor(self, web: Web) -> Monitor:
        return Monitor("judge", web, self.notes.append, self.urls.append)


@posix
@pytest.mark.parametrize(
    ("python", "says"),
    [("/no/such/python", "No such file"), ("/bin/false", "its process ended with 1"), ("/bin/true", "ended with 0")],
)
def test_a_monitor_that_cannot_start_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, says: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    heard = Heard()
    with heard.monitor(Web(browser=False, home=tmp_path)) as watched:
        watched.open(make_bundle(tmp_path / "r"))
        watched.settle()
    assert heard.urls == [] and len(heard.notes) == 1
    assert heard.notes[0].startswith("no live page: ") and says in heard.notes[0]


@posix
def test_a_monitor_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexec sleep 600\n")
    mute.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(mute))
    monkeypatch.setattr(run_side, "START_S", 0.5)
    heard = Heard()
    with heard.monitor(Web(browser=False, home=tmp_path)) as watched:
        watched.open(make_bundle(tmp_path / "r"))
        watched.settle()
    assert heard.urls == [] and len(heard.notes) == 1 and "-9" in heard.notes[0]


@posix
def test_a_monitor_that_hangs_is_ended_too(tmp_path: Path) -> None:
    heard = Heard()
    with heard.monitor(Web(browser=False, home=tmp_path)) as watched:
        watched.open(make_bundle(tmp_path / "r"))
        watched.settle()
        (hanging,) = (child for child in psutil.Process().children() if "touchstone.webmon" in child.cmdline())
        hanging.suspend()
    assert not hanging.is_running() and heard.notes == []


def test_a_run_that_is_over_at_once_still_tells_the_address_once(tmp_path: Path) -> None:
    heard = Heard()
    with heard.monitor(Web(browser=False, home=tmp_path)) as watched:
        watched.open(make_bundle(tmp_path / "r"))
        watched.open(tmp_path / "another")
        watched.settle()
        assert len(heard.urls) == 1 and "48" in page(heard.urls[0])
    assert heard.notes == [] and not answers(heard.urls[0])


# -- the ends


@posix
def test_a_run_that_is_killed_takes_its_monitor_along(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    with running(cli, "judge") as (process, url):
        (watched,) = monitors_of(process)
        process.kill()
        wait_for(lambda: gone(watched) and not answers(url))


@posix
def test_ctrl_c_is_for_the_run_alone(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    with running(cli, "judge", group=True) as (process, _):
        (watched,) = monitors_of(process)
        assert os.getpgid(watched.pid) != process.pid
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130 and "Traceback" not in err and "live page" not in err
        wait_for(lambda: gone(watched))
    assert json.loads((bundle / "judge_events.jsonl").read_text().splitlines()[-1])["event"] == "judge_done"


@contextmanager
def on_terminal(cli: Cli, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose terminal we are: the process, and our end of it."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "touchstone", *args],
        cwd=cli.home,
        env=cli.environment({"TERM": "dumb"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_own_terminal,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _own_terminal() -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_until(terminal: int, wanted: str) -> str:
    """What the terminal shows, until it shows `wanted`."""
    shown = ""
    deadline = time.monotonic() + 60
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        shown += os.read(terminal, 4096).decode()
    return shown


@posix
@pytest.mark.parametrize("end", ["ctrl-c", "sigterm", "monitor"])
def test_on_a_terminal_the_page_stays_until_ctrl_c(cli: Cli, endpoint: StandIn, bundle: Path, end: str) -> None:
    with on_terminal(cli, "judge", "--web", "--no-open") as (process, terminal):
        shown = read_until(terminal, "the page stays until Ctrl-C")
        (url,) = (line for line in shown.splitlines() if line.startswith("http"))
        assert "runs/r: 24 verdicts" in shown and "next: touchstone build" in shown
        assert "All 24 verdicts are in." in page(url) and process.poll() is None
        (watched,) = monitors_of(process)  # type: ignore[arg-type]
        if end == "ctrl-c":
            os.write(terminal, b"\x03")
        elif end == "sigterm":
            process.terminate()
        else:
            watched.kill()
        assert process.wait(20) == 0
        wait_for(lambda: gone(watched))


@posix
def test_ctrl_c_during_the_run_holds_nothing(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    with on_terminal(cli, "judge", "--web", "--no-open") as (process, terminal):
        read_until(terminal, "/judge/index.html")
        os.write(terminal, b"\x03")
        assert process.wait(20) == 130


# -- a server that is there already


@contextmanager
def serving(cli: Cli, *args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = cli.start("serve", "--port", "0", "--no-open", *args)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        put_away(process)


def announcements(home: Path) -> list[Path]:
    return sorted((home / ".touchstone").glob("serve-*"))


def test_a_server_that_covers_the_run_shows_it(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    with serving(cli) as (server, root):
        (word,) = announcements(cli.home)
        assert sys.platform == "win32" or stat.S_IMODE(word.stat().st_mode) == 0o600
        with running(cli, "judge") as (process, url):
            assert url == root + "runs/r/judge/index.html"
            wait_for(lambda: done_in(url) > 0)
            assert not monitors_of(process)
            endpoint.script = Brain()
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0 and "live page" not in err
        wait_for(lambda: "All 24 verdicts are in." in page(url))
        if sys.platform != "win32":
            server.send_signal(signal.SIGINT)
            server.wait(20)
            assert announcements(cli.home) == []


def test_a_server_shows_a_run_that_begins_later(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = slowly(1.0)
    with serving(cli) as (_, root), running(cli, "eval") as (process, url):
        assert url.startswith(root) and "of 24 answers are in." in page(url)
        assert not monitors_of(process)


@posix
def test_a_server_that_was_killed_is_forgotten(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    with serving(cli) as (server, root):
        server.kill()
        server.wait()
    assert len(announcements(cli.home)) == 1
    done = cli("judge", "--web", "--no-open")
    assert URL.match(done.out) and not done.out.startswith(root)
    assert announcements(cli.home) == []


def test_a_server_for_other_runs_shows_nothing_of_ours(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    make_bundle(cli.home / "elsewhere" / "x")
    with serving(cli, "--runs", "elsewhere") as (_, root):
        done = cli("judge", "--web", "--no-open")
        assert URL.match(done.out) and not done.out.startswith(root)
        assert len(announcements(cli.home)) == 1


def test_only_who_knows_the_token_can_prove_it(tmp_path: Path, cli: Cli) -> None:
    make_bundle(tmp_path / "runs" / "r")
    with serving(cli) as (_, root):
        (word,) = announcements(tmp_path)
        token = json.loads(word.read_text())["token"]
        status, _, body = ask(root + "-/touchstone")
        assert status == 200 and body.decode() == proof(token, "") and token not in body.decode()
        assert ask(root + "-/touchstone", host="evil.example")[0] == 421
        presence = covering(tmp_path, tmp_path / "runs" / "r")
        assert presence is not None and presence.url == root
        assert covering(tmp_path, tmp_path / "elsewhere") is None
        # The same server, with a token that it does not know: somebody else's word, or an older one.
        data = json.loads(word.read_text()) | {"token": "guessed"}
        word.write_text(json.dumps(data))
        assert covering(tmp_path, tmp_path / "runs" / "r") is None and not word.exists()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{}", '{"url": 1, "token": 2, "runs": 3}', "[" * 10_000,
        '{"url": "http://evil.example/", "token": "t", "runs": "/"}',
        '{"url": "file:///etc/passwd", "token": "t", "runs": "/"}',
        '{"url": "https://127.0.0.1/", "token": "t", "runs": "/"}',
        '{"url": "http://127.0.0.1:1/", "token": "t", "runs": "runs"}',
        '{"url": "http://127.0.0.1:99999/", "token": "t", "runs": "/"}',
    ],
)  # fmt: skip
def test_words_of_nobody_are_ignored(tmp_path: Path, text: str) -> None:
    word = tmp_path / ".touchstone" / "serve-1.json"
    word.parent.mkdir()
    word.write_text(text)
    word.chmod(0o600)
    assert covering(tmp_path, tmp_path) is None


@posix
def test_words_that_others_could_have_written_are_ignored(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:1/", tmp_path):
        (word,) = announcements(tmp_path)
        assert stat.S_IMODE(word.stat().st_mode) == 0o600
        word.chmod(0o644)
        assert covering(tmp_path, tmp_path) is None and word.exists()
        word.chmod(0o600)
        assert covering(tmp_path, tmp_path) is None and not word.exists()


def test_a_server_in_a_folder_that_cannot_be_written_is_just_not_found(tmp_path: Path) -> None:
    (tmp_path / ".touchstone").write_text("in the way")
    with announced(tmp_path, "http://127.0.0.1:1/", tmp_path) as token:
        assert token and covering(tmp_path, tmp_path) is None


# -- the browser


@posix
@pytest.mark.parametrize("words", [[], ["--no-open"]], ids=["opened", "not opened"])
def test_the_browser_is_opened_unless_told_not_to(
    cli: Cli, endpoint: StandIn, bundle: Path, words: Sequence[str]
) -> None:
    browser, seen = cli.home / "browser", cli.home / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {seen}\necho noise; echo noise >&2\n')
    browser.chmod(0o755)
    endpoint.script = slowly(1.0)
    process = cli.start("judge", "--web", *words, env={"BROWSER": f"{browser} %s", "PATH": "/nowhere:/bin"})
    try:
        assert process.stdout is not None
        url = process.stdout.readline()
        if not words:
            wait_for(lambda: seen.exists() and seen.read_text() == url)
        endpoint.script = Brain()
        out, err = process.communicate(timeout=60)
    finally:
        put_away(process)
    assert process.returncode == 0 and "noise" not in out + err
    assert words == [] or not seen.exists()


@posix
def test_no_browser_costs_one_line(cli: Cli, endpoint: StandIn, bundle: Path) -> None:
    endpoint.script = slowly(1.0)
    process = cli.start("judge", "--web", env={"BROWSER": "/bin/false %s", "PATH": "/nowhere", "DISPLAY": ""})
    try:
        assert process.stdout is not None and process.stderr is not None
        assert URL.match(process.stdout.readline())
        line = ""
        while "browser" not in line:
            line = process.stderr.readline()
            assert line, "no word of the browser"
        assert line == "no browser could be opened; the page is there all the same\n"
        endpoint.script = Brain()
        out, err = process.communicate(timeout=60)
    finally:
        put_away(process)
    assert process.returncode == 0 and "24 verdicts" in out and "browser" not in err
