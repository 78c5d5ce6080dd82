"""`touchstone serve` and `touchstone demo` as processes: one line with the address, pages that grow, a clean end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conftest import Cli
from tests.making import make_bundle
from tests.pages import Html, dead_links, html_pages

LINE = (
    '{"model": "m-one", "variant": "plain", "prompt_id": "p07", "repeat": 0, "score": 5, "rationale": "Newly come."}\n'
)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


@contextmanager
def running(cli: Cli, *args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that serves: the process and the address that it printed."""
    process = cli.start(*args)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().rstrip("\n")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("extra", [[], ["--poll"]], ids=["notified", "polling"])
def test_serve_prints_its_address_and_the_page_follows_the_log(cli: Cli, extra: list[str]) -> None:
    bundle = make_bundle(cli.home / "runs" / "r", judged=7, events=False)
    with running(cli, "serve", "--port", "0", "--no-open", *extra) as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        monitor = url + "runs/r/judge/index.html"
        assert "7 of 48 verdicts are in." in get(monitor) and "Newly come." not in get(monitor)
        with (bundle / "judgements.jsonl").open("a") as log:
            log.write(LINE[:40])
        time.sleep(0.3)
        assert "7 of 48 verdicts are in." in get(monitor)  # half a line is not there yet
        with (bundle / "judgements.jsonl").open("a") as log:
            log.write(LINE[40:])
        wait_for(lambda: "8 of 48 verdicts are in." in get(monitor))
        assert "Newly come." in get(monitor) and "/-/live.js" in get(monitor)
        assert "live.js" not in (cli.home / "public/runs/r/judge/index.html").read_text()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=10)
        assert "Traceback" not in err
        assert sys.platform == "win32" or process.returncode == 130


def test_a_change_is_told_to_open_pages(cli: Cli) -> None:
    bundle = make_bundle(cli.home / "runs" / "r", judged=7, events=False)
    with running(cli, "serve", "--port", "0", "--no-open") as (_, url):
        with urllib.request.urlopen(url + "events", timeout=20) as stream:
            with (bundle / "judgements.jsonl").open("a") as log:
                log.write(LINE)
            for raw in stream:
                if raw.startswith(b"data: "):
                    paths = json.loads(raw[6:])["paths"]
                    break
        assert {"index.html", "runs/r/judge/index.html", "runs/r/judge/verdicts-1.html"} <= set(paths)
        assert not [path for path in paths if path.startswith("assets/")]


def test_a_port_in_use_is_said_and_the_next_free_one_taken(cli: Cli) -> None:
    make_bundle(cli.home / "runs" / "r")
    with running(cli, "serve", "--port", "0", "--no-open") as (_, first):
        port = urlsplit(first).port
        with running(cli, "serve", "--port", str(port), "--no-open") as (process, second):
            assert urlsplit(second).port != port and "Runs" in get(second)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=20)
            assert f"port {port} is in use; serving on {urlsplit(second).port} instead" in err


def test_bundles_that_appear_and_vanish_are_followed(cli: Cli) -> None:
    make_bundle(cli.home / "runs" / "r")
    with running(cli, "serve", "--port", "0", "--no-open") as (_, url):
        make_bundle(cli.home / "elsewhere" / "second")
        (cli.home / "elsewhere" / "second").rename(cli.home / "runs" / "second")
        wait_for(lambda: "runs/second/index.html" in get(url))
        assert "All 48 verdicts are in." in get(url + "runs/second/judge/index.html")
        (cli.home / "runs" / "second").rename(cli.home / "elsewhere" / "gone")
        wait_for(lambda: "runs/second/index.html" not in get(url))
        wait_for(lambda: not (cli.home / "public" / "runs" / "second").exists())


def test_demo_once_builds_the_samples_and_labels_the_replay(cli: Cli) -> None:
    start = Path(cli("demo", "--once", "--no-open").out.strip())
    site = start.parent
    try:
        pages = html_pages(site)
        assert dead_links(site, pages) == []
        (home,) = (path for path in (site / "runs").iterdir() if path.name.endswith("_replay"))
        for path in home.rglob("*.html"):
            assert "Replay: this is the recorded judging" in Html(path).text, path
        recorded, replayed = (
            Html(site / "runs" / name / "judge" / "index.html")
            for name in (home.name.removesuffix("_replay"), home.name)
        )
        figures = [
            re.search(r"Score 1: .*?Score 5: \d+", "".join(page.root.itertext())) for page in (recorded, replayed)
        ]
        assert figures[0] and figures[1] and figures[0][0] == figures[1][0]
    finally:
        import shutil

        shutil.rmtree(site.parent)


def test_the_demo_grows_and_leaves_nothing_behind(cli: Cli) -> None:
    temp = cli.home / "temp"
    temp.mkdir()
    process = cli.start("demo", "--no-open", env={"TMPDIR": str(temp), "TEMP": str(temp), "TMP": str(temp)})
    try:
        assert process.stdout is not None
        url = process.stdout.readline().rstrip("\n")
        assert urlsplit(url).path.endswith("_replay/judge/index.html")

        def done() -> int:
            found = re.search(r'<progress max="\d+" value="(\d+)"', get(url))
            return int(found[1]) if found else 0

        wait_for(lambda: done() >= 2)
        first = done()
        wait_for(lambda: done() > first)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=15)
    finally:
        process.kill()
        process.communicate()
    if sys.platform != "win32":
        assert process.returncode == 130 and list(temp.iterdir()) == []
