"""The monitor process: the builder's pages of one bundle, live, from a process that only reads."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

import html5lib
import pytest

from tests.making import make_bundle, write_lines
from tests.pages import html_pages
from tests.watching import Tab, answers, ask, page, watching
from touchstone import events, judge_events, webmon
from touchstone.build import build
from touchstone.live.hub import Hub
from touchstone.options import Options
from touchstone.webmon import Pages

MONITOR = "runs/r/judge/index.html"
EVAL = "runs/r/eval/index.html"
LINE = (
    b'{"model": "m-one", "variant": "plain", "prompt_id": "p07", "repeat": 0, "score": 5, "rationale": "Newly come."}\n'
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Seven of 48 answers judged; how the answers came about was recorded too."""
    folder = make_bundle(tmp_path / "runs" / "r", judged=7)
    write_lines(folder / "events.jsonl", [{"event": "eval_start", "ts": 1000.0, "total": 48}])
    write_lines(folder / "resources.jsonl", [{"ts": 1000.0 + n, "ram_used_bytes": 5e9 + n} for n in range(9)])
    return folder


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


# -- which view


def test_a_view_names_its_channel_its_template_and_whether_it_reads_the_load() -> None:
    assert (judge_events.CHANNEL, judge_events.TEMPLATE) == ("judge_events.jsonl", "judge.html")
    assert (events.CHANNEL, events.TEMPLATE) == ("events.jsonl", "eval.html")
    assert judge_events.TAILS_RESOURCES is False and events.TAILS_RESOURCES is True
    assert all(callable(view.build_view) for view in (judge_events, events))
    assert dict(webmon.VIEWS) == {"eval": events, "judge": judge_events}


@pytest.mark.parametrize(
    ("view", "path", "title"), [("judge", MONITOR, "Judge monitor"), ("eval", EVAL, "Eval monitor")]
)
def test_the_root_leads_to_the_monitor_of_the_view(bundle: Path, view: str, path: str, title: str) -> None:
    with watching(bundle, view) as (_, root):
        status, headers, body = ask(root)
        assert (status, headers["Location"], body) == (302, "/" + path, b"")
        assert f"<h1>{title}</h1>" in page(root + path)


def test_the_view_is_eval_unless_said_otherwise(bundle: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "touchstone.webmon", "--bundle", bundle, "--port", "0", "--events", "events.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert ask(f"http://127.0.0.1:{int(process.stdout.readline())}/")[1]["Location"] == "/" + EVAL
    finally:
        process.kill()
        process.communicate()


_opened: list[str] = []
_hooked = False


@pytest.fixture
def opened() -> list[str]:
    """Every file that this process opens from now on. An audit hook cannot be taken back, so there is one for all."""
    global _hooked
    if not _hooked:
        sys.addaudithook(lambda name, args: _opened.append(str(args[0])) if name == "open" else None)
        _hooked = True
    _opened.clear()
    return _opened


@pytest.mark.parametrize(("view", "reads"), [("judge", False), ("eval", True)])
def test_only_the_eval_view_reads_the_load(bundle: Path, opened: list[str], view: str, reads: bool) -> None:
    pages = Pages(bundle, view, Hub("s"))
    for path in ("index.html", "judge/index.html", "judge/verdicts-1.html", "answers-1.html", "eval/index.html"):
        pages.get("runs/r/" + path)
    assert any(name.endswith("resources.jsonl") for name in opened) is reads
    append(bundle / "resources.jsonl", b'{"ts": 2000}\n')
    opened.clear()
    assert pages.stale is reads
    pages.renew(whole=True)
    assert any(name.endswith("resources.jsonl") for name in opened) is reads
    assert any(name.endswith("judgements.jsonl") for name in opened)
    # Without the load, the eval monitor would be another page than the site's.
    assert (pages.get(EVAL) is not None) is reads


# -- which pages


def outline(element: Element, path: str, ours: str) -> Any:
    """A parsed page as values, with links that lead out of the bundle's folder already made plain."""
    name, attributes = element.tag, dict(element.attrib)
    if name == "a":
        parts = urlsplit(attributes["href"])
        target = normpath(join(dirname(path), unquote(parts.path))) if parts.path else path
        if not parts.scheme and not re.match(ours, target):
            name = "span"
            for only in ("href", "rel", "hreflang"):
                attributes.pop(only, None)
    children = [outline(child, path, ours) for child in element]
    return name, attributes, element.text, element.tail, children


def parsed(html: str) -> Element:
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), namespaceHTMLElements=False, strict=True)
    return parser.parse(html)  # type: ignore[no-any-return]


@pytest.mark.parametrize("view", ["judge", "eval"])
def test_the_pages_are_those_of_the_site_but_for_links_that_lead_elsewhere(
    tmp_path: Path, bundle: Path, view: str
) -> None:
    (bundle / "scorecard.md").write_text("---\ntype: scorecard\n---\n# Scorecard\n")
    build(Options(tmp_path / "runs", tmp_path / "public", langs=("en", "de"), state_home=tmp_path))
    built = {path: html for path, html in html_pages(tmp_path / "public").items() if "runs/r/" in path}
    pages = Pages(bundle, view, Hub("s"), ("en", "de"))
    ours = r"(de/)?runs/r/" if view == "eval" else r"(de/)?runs/r/(?!eval/)"
    shown = {path for path in built if re.match(ours, path)}
    assert len(shown) == (14 if view == "eval" else 12), shown
    for path in shown:
        mine = pages.get(path)
        assert mine is not None, path
        assert outline(parsed(mine.decode()), path, ".*") == outline(built[path].root, path, ours), path
    for path in built.keys() - shown:
        assert pages.get(path) is None
    for path in ("runs/r/scorecard.md", "assets/style.css", "404.html"):
        assert pages.get(path) == (tmp_path / "public" / path).read_bytes()


@pytest.mark.parametrize("view", ["judge", "eval"])
def test_every_link_leads_to_a_page(bundle: Path, view: str) -> None:
    seen: set[str] = set()
    with watching(bundle, view, "--lang", "en,de") as (_, root):
        todo = [ask(root)[1]["Location"].lstrip("/")]
        while todo:
            path = todo.pop()
            seen.add(path)
            status, headers, body = ask(root + path)
            assert status == 200, path
            if not headers["Content-Type"].startswith("text/html"):
                continue
            for found in re.findall(r'(?:href|src)="([^"]+)"', body.decode()):
                parts = urlsplit(found)
                if not parts.scheme and parts.path and not parts.path.startswith("/-/"):
                    target = normpath(join(dirname(path), unquote(parts.path)))
                    todo += [target] if target not in seen and target not in todo else []
    assert {"runs/r/index.html", "runs/r/answers-1.html", "runs/r/judge/verdicts-1.html", "de/" + MONITOR} <= seen


def test_links_that_cannot_be_served_are_plain_text(bundle: Path) -> None:
    html = Pages(bundle, "judge", Hub("s")).get(MONITOR)
    assert html is not None
    text = html.decode()
    assert "<li><span>Compare models</span></li>" in text and "<li><span>Eval monitor</span></li>" in text
    assert '<span class="brand"><svg' in text
    assert '<a href="../index.html">Result</a>' in text and '<a href="verdicts-1.html">' in text


# -- live


def test_an_open_page_hears_of_what_changed_on_it(bundle: Path) -> None:
    with watching(bundle, "judge") as (_, root):
        assert "7 of 48 verdicts are in." in page(root + MONITOR)
        tab = Tab(root)
        append(bundle / "judgements.jsonl", LINE[:30])
        append(bundle / "judgements.jsonl", LINE[30:])
        assert tab.change() == [MONITOR]  # nobody has asked for any other page
        assert "8 of 48 verdicts are in." in page(root + MONITOR) and "Newly come." in page(root + MONITOR)
        assert "Newly come." in page(root + "runs/r/judge/verdicts-1.html")
        tab.kill()


def test_a_page_is_as_new_as_the_moment_it_is_asked_for(bundle: Path) -> None:
    hub = Hub("s")
    pages = Pages(bundle, "judge", hub)
    paths = [MONITOR, "runs/r/judge/verdicts-1.html", "runs/r/answers-1.html"]
    before = [pages.get(path) for path in paths]
    append(bundle / "judgements.jsonl", LINE)
    after = [pages.get(path) for path in paths]
    assert all(b"Newly come." not in (old or b"") for old in before)
    assert all(b"Newly come." in (new or b"") for new in after)


def test_a_renewal_tells_of_pages_that_were_asked_for_and_of_no_others(bundle: Path) -> None:
    hub = Hub("s")
    pages = Pages(bundle, "judge", hub)
    listener, _ = hub.join(None)
    for path in (MONITOR, "runs/r/index.html", "runs/r/answers-2.html"):
        pages.get(path)
    append(bundle / "judgements.jsonl", LINE)
    pages.renew()
    told = listener.get(1)
    assert told is not None and told.paths == (MONITOR,) and not pages.whole
    pages.renew(whole=True)  # as when the run has rested
    told = listener.get(1)
    assert told is not None and told.paths == ("runs/r/index.html",) and pages.whole


def test_a_page_is_rendered_again_only_when_what_it_shows_changed(bundle: Path) -> None:
    pages = Pages(bundle, "judge", Hub("s"))
    paths = (MONITOR, "runs/r/answers-2.html", "runs/r/judge/verdicts-1.html")
    first = [pages.get(path) for path in paths]
    assert all(pages.get(path) is made for path, made in zip(paths, first, strict=True))
    append(bundle / "judgements.jsonl", LINE)
    pages.renew(whole=True)
    again = [pages.get(path) is made for path, made in zip(paths, first, strict=True)]
    assert again == [False, True, False]  # the new verdict is on an answer of the first page


def test_nobody_looking_costs_no_reading(bundle: Path, opened: list[str]) -> None:
    hub, stop = Hub("s"), threading.Event()
    pages = Pages(bundle, "judge", hub)
    pages.get(MONITOR)
    opened.clear()
    thread = threading.Thread(target=webmon.follow, args=(pages, hub, stop))
    thread.start()
    append(bundle / "judgements.jsonl", LINE)
    stop.wait(4 * webmon.POLL_S)
    assert not [name for name in opened if name.endswith(".jsonl") and "judgements" not in name]
    listener, _ = hub.join(None)  # somebody comes, and gets what was written meanwhile
    told = listener.get(5)
    stop.set()
    thread.join()
    assert told is not None and told.paths == (MONITOR,)


def test_the_eval_page_comes_with_its_first_event(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "r", judged=0, events=False)
    for name in ("answers.jsonl",):
        (bundle / name).unlink()
    with watching(bundle, "eval") as (_, root):
        assert ask(root + EVAL)[0] == 404
        tab = Tab(root)
        append(bundle / "events.jsonl", b'{"event": "eval_start", "ts": 1, "total": 5}\n')
        assert tab.change() == [EVAL]
        assert "0 of 5 answers are in." in page(root + EVAL)
        tab.kill()


def test_open_pages_get_the_end_of_the_run(bundle: Path) -> None:
    with watching(bundle, "judge", "--parent-pipe") as (process, root):
        page(root + MONITOR)
        tab = Tab(root)
        append(bundle / "judge_events.jsonl", b'{"event": "judge_done", "ts": 9, "total": 48, "scored": 7}\n')
        assert process.stdin is not None
        process.stdin.close()
        assert tab.change() == [MONITOR]
        assert "The judging stopped early" in page(root + MONITOR)
        assert process.wait(10) == 0
        tab.kill()


# -- the process


def test_it_writes_nothing(tmp_path: Path, bundle: Path) -> None:
    def everything() -> dict[str, tuple[int, int]]:
        found = (path for path in tmp_path.rglob("*"))
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = everything()
    with watching(bundle, "judge") as (_, root):
        for path in (MONITOR, "runs/r/index.html", "runs/r/answers-1.html"):
            page(root + path)
    assert everything() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_with_a_parent_ctrl_c_is_the_parents_and_its_end_is_ours(bundle: Path) -> None:
    with watching(bundle, "judge", "--parent-pipe") as (process, root):
        process.send_signal(signal.SIGINT)
        assert "7 of 48" in page(root + MONITOR) and process.poll() is None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0
        assert process.stdout is not None and process.stdout.read() == ""
        assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_by_hand_ctrl_c_ends_it(bundle: Path) -> None:
    with watching(bundle, "judge") as (process, root):
        page(root + MONITOR)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX priorities")
def test_the_run_comes_first(bundle: Path) -> None:
    import psutil

    with watching(bundle, "judge") as (process, _):
        assert int(psutil.Process(process.pid).nice()) >= 10


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--bundle", "{bundle}", "--events", "events.jsonl", "--view", "judge"], 2, "follows judge_events.jsonl"),
        (["--bundle", "{bundle}/no", "--events", "judge_events.jsonl", "--view", "judge"], 2, "no such folder"),
        (["--bundle", "{bundle}", "--events", "events.jsonl", "--port", "70000"], 2, "65535"),
        (["--bundle", "{bundle}", "--events", "events.jsonl", "--view", "both"], 2, "invalid choice"),
        (["--bundle", "{bundle}", "--events", "events.jsonl", "--lang", "xx"], 2, "choose from en, de"),
        (["--bundle", "{bundle}", "--events", "events.jsonl", "--timezone", "Mars/Base"], 2, "Mars/Base"),
    ],
)
def test_what_cannot_be_is_refused(bundle: Path, words: list[str], code: int, says: str) -> None:
    given = [word.format(bundle=bundle) for word in words]
    port = [] if "--port" in given else ["--port", "0"]
    command = [sys.executable, "-m", "touchstone.webmon", *given, *port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and "Traceback" not in done.stderr


def test_a_taken_port_is_said(bundle: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "touchstone.webmon", "--bundle", str(bundle), "--events", "events.jsonl"]
        done = subprocess.run([*command, "--port", str(port)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"port {port}: ") and done.stderr.count("\n") == 1


def test_a_bundle_that_goes_away_is_no_crash(bundle: Path) -> None:
    with watching(bundle, "judge") as (process, root):
        page(root + MONITOR)
        tab = Tab(root)
        shutil.rmtree(bundle)
        tab.change()
        assert ask(root + MONITOR)[0] in (200, 404) and process.poll() is None
        tab.kill()


# -- who is let in


@pytest.fixture
def root(tmp_path: Path, bundle: Path) -> Iterator[str]:
    make_bundle(tmp_path / "runs" / "other")
    (tmp_path / "secret.txt").write_text("secret")
    with watching(bundle, "judge") as (_, address):
        yield address


def test_foreign_names_and_other_methods_are_refused(root: str) -> None:
    assert ask(root + MONITOR, host="evil.example")[0] == 421
    assert ask(root + "events", host="evil.example")[0] == 421
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = ask(root + MONITOR, method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
    status, headers, body = ask(root + MONITOR, "HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 1000


def test_only_this_bundles_pages_are_there(root: str) -> None:
    for path in (
        "../secret.txt", "%2e%2e/secret.txt", "runs/r/../../secret.txt", "runs/r/%2e%2e%2f%2e%2e%2fsecret.txt",
        "runs/other/index.html", "runs/r/answers.jsonl", "runs/r/pack.yaml", "runs/r/judge_events.jsonl", "index.html",
        "compare/index.html", "data/runs.json", "runs/r/../other/index.html", "runs/r", "runs/rr/index.html", "-/",
        "-/touchstone", "assets/../../secret.txt", "runs%2Fr%2F%00",
    ):  # fmt: skip
        status, _, body = ask(root + path)
        assert status == 404 and b"secret" not in body, path


def test_pages_carry_a_policy_and_the_servers_own_script_only(root: str) -> None:
    html = page(root + MONITOR)
    assert "default-src 'none'" in html and html.count('src="/-/live.js"') == 1
    assert all(re.match(r'<script src="[^":]+"', tag) for tag in re.findall(r"<script[^>]*>", html))
    assert answers(root + "-/live.js")
