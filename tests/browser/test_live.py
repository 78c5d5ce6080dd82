"""An open page of a run that goes on, in a real browser: what changed is exchanged, what the reader did stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Request

from tests.browser.live import growing, live, shows, wait_for, wired
from tests.conftest import Cli
from tests.making import make_bundle
from touchstone.build import build
from touchstone.live.hub import Hub
from touchstone.live.script import live_script
from touchstone.live.server import Server, listen
from touchstone.options import Options

TOP = "window.row.getBoundingClientRect().top"
MUTATIONS = """() => {
    window.mutations = [];
    new MutationObserver((found) => window.mutations.push(...found.map((each) => each.type)))
        .observe(document.querySelector("main"),
            {childList: true, subtree: true, attributes: true, characterData: true});
}"""


def test_new_verdicts_come_to_the_top_and_are_marked(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        assert page.locator(".is-new").count() == 0
        run.append(3)
        shows(page, run.said)
        rows = page.locator(".verdicts tbody tr")
        assert rows.count() == 50
        assert [rows.nth(n).evaluate("row => row.className.split(' ').includes('is-new')") for n in range(4)] == [
            True, True, True, False,
        ]  # fmt: skip
        assert page.locator(".verdicts .is-new").count() == 3


def test_what_the_reader_did_stays(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        page.locator("label", has_text="Score 1 or 2").click()
        row = page.locator(".verdicts tbody tr.low").nth(5)
        row.evaluate("row => { window.row = row; }")
        row.locator("summary").click()
        row.locator("a").first.focus()
        row.evaluate("row => getSelection().selectAllChildren(row.querySelector('details p'))")
        row.evaluate("row => row.scrollIntoView()")
        before = page.evaluate(TOP)
        selected = page.evaluate("String(getSelection())")
        assert selected.startswith("First of all") and page.evaluate("scrollY") > 0
        run.append(3, score=1)
        shows(page, run.said)
        assert page.evaluate("window.row.isConnected && window.row.querySelector('details').open")
        assert page.evaluate("window.row.contains(document.activeElement)")
        assert page.evaluate("String(getSelection())") == selected
        assert page.evaluate("document.querySelector('#f-low').checked")
        assert page.locator(".verdicts tbody tr:visible").evaluate_all(
            "rows => rows.every((row) => row.classList.contains('low'))"
        )
        assert abs(page.evaluate(TOP) - before) < 2


def test_without_scroll_anchoring_the_script_holds_the_place(cli: Cli, page: Page) -> None:
    """As in Safari."""
    page.add_init_script("CSS.supports = () => false")
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        page.evaluate("document.documentElement.style.overflowAnchor = 'none'")
        row = page.locator(".verdicts tbody tr").nth(20)
        row.evaluate("row => { window.row = row; row.scrollIntoView(); }")
        before = page.evaluate(TOP)
        run.append(3)
        shows(page, run.said)
        assert abs(page.evaluate(TOP) - before) < 2


def test_a_sorted_table_stays_sorted(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        heading = page.locator(".verdicts th", has_text="Score")
        heading.locator("button").click()
        heading.locator("button").focus()
        assert heading.get_attribute("aria-sort") == "descending"
        run.append(2, score=2)
        shows(page, run.said)
        scores = [int(text) for text in page.locator(".verdicts .c-s b").all_inner_texts()]
        assert scores == sorted(scores, reverse=True) and scores.count(2) >= 2 and len(scores) == 50
        assert page.locator(".verdicts tr.is-new .c-s b").all_inner_texts() == ["2", "2"]
        assert heading.locator("button").evaluate("button => button === document.activeElement")
        heading.locator("button").click()
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") is None
        assert page.locator(".verdicts tbody tr").first.evaluate("row => row.classList.contains('is-new')")


def test_a_search_under_way_stays(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.url)
        live(page)
        page.locator("#q").fill("Title 3")
        page.wait_for_selector("#search-results li")
        found = page.locator("#search-results").inner_text()
        run.append(2)
        page.wait_for_function(
            "text => document.querySelector('#listed').textContent.includes(text)", arg=f"{run.judged}/"
        )
        assert page.locator("#q").input_value() == "Title 3" and page.locator("#search").is_visible()
        assert page.locator("#search-results").inner_text() == found and page.locator("#listed").is_hidden()


def test_updates_can_be_paused(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        before = page.locator("main").inner_text()
        page.get_by_role("button", name="Pause").click()
        live(page, "paused")
        run.append(2)
        live(page, "news")
        assert page.locator(".answer").inner_text() in before
        page.get_by_role("button", name="Resume").click()
        shows(page, run.said)
        live(page)


def test_another_pages_change_touches_nothing(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.url + "runs/r/judge/verdicts-1.html")
        live(page)
        page.evaluate(MUTATIONS)
        asked: list[Request] = []
        page.on("request", lambda request: asked.append(request))
        other = page.context.new_page()
        other.goto(run.monitor)
        live(other)
        flagged = (run.bundle.parent.parent / "public/runs/r/judge/flagged-1.html").stat().st_mtime_ns
        run.judged = 80  # on a verdict page of its own, and no flag
        run.append(1)
        shows(other, "Newly come.")
        assert (run.bundle.parent.parent / "public/runs/r/judge/flagged-1.html").stat().st_mtime_ns == flagged
        page.wait_for_timeout(100)
        first = page.locator("tbody tr").count()
        if not page.evaluate("window.mutations.length"):
            assert asked == []
        assert first >= 60


def test_a_lost_connection_is_said_and_nothing_is_missed(cli: Cli, page: Page) -> None:
    with growing(cli) as run, wired(run.url) as wire:
        page.goto(wire.url + "runs/r/judge/index.html")
        live(page)
        run.append(1)
        shows(page, run.said)
        wire.cut()
        live(page, "lost")
        assert page.locator(".live [role=status]").inner_text() == "Connection lost, trying again"
        run.append(2)
        page.wait_for_timeout(300)
        wire.asked.clear()
        wire.mend()
        shows(page, run.said)
        live(page)
        assert any(b"\r\nLast-Event-ID: " in each for each in wire.asked)


def test_after_a_restart_of_the_server_the_page_goes_on(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        port = run.url.rstrip("/").rpartition(":")[2]
        page.goto(run.monitor)
        live(page)
    live(page, "lost")
    run.append(1)
    from tests.test_serve import running

    with running(cli, "serve", "--port", port, "--no-open") as (_, url):
        assert url == run.url
        shows(page, run.said)
        run.append(1)
        shows(page, run.said)


def test_rows_that_are_gone_vanish(cli: Cli, page: Page) -> None:
    with growing(cli, judged=20) as run:
        page.goto(run.monitor)
        live(page)
        assert page.locator(".verdicts tbody tr").count() == 20
        for name in ("judgements.jsonl", "judge_events.jsonl"):
            path = run.bundle / name
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:12]))
        page.wait_for_function("() => document.querySelectorAll('.verdicts tbody tr').length === 12")


def test_a_page_that_is_gone_says_so_and_comes_back(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        run.bundle.rename(cli.home / "away")
        live(page, "gone")
        assert "verdicts are in." in page.locator("main").inner_text()
        (cli.home / "away").rename(run.bundle)
        run.append(1)
        shows(page, run.said)
        live(page)


def test_the_milestones_are_spoken_and_nothing_else(cli: Cli, page: Page) -> None:
    with growing(cli, judged=70) as run:
        page.goto(run.monitor)
        live(page)
        status = page.locator(".live [role=status]")
        run.append(1)
        shows(page, run.said)
        assert status.inner_text() == "" and page.locator("[aria-live]").count() == 0
        run.append(2)  # 73 of 96: more than three quarters
        shows(page, run.said)
        assert run.said in status.inner_text()


# -- windows that nobody looks at, and many windows

HIDE = """
    let hidden = false;
    Object.defineProperty(document, "hidden", { get: () => hidden });
    window.setHidden = (value) => { hidden = value; document.dispatchEvent(new Event("visibilitychange")); };
"""


@pytest.fixture
def local(tmp_path: Path) -> object:
    """A server in this process, on pages that were built once: its streams can be counted."""
    make_bundle(tmp_path / "runs" / "r", models=[f"m{n}" for n in range(11)], judged=250, rationale="Because.")
    build(Options(runs=tmp_path / "runs", out=tmp_path / "public", state_home=tmp_path))
    hub = Hub("s")
    changed: dict[str, bytes] = {}

    def get(path: str) -> bytes | None:
        file = tmp_path / "public" / path
        return changed.get(path) or (file.read_bytes() if file.is_file() else None)

    server = listen("127.0.0.1", 0, get, hub, live_script(), frozenset())
    server.start()
    yield server, changed
    server.stop()


BROKEN = "{% extends 'base.html' %}\n{% block main %}\n{{ nobody.knows }}\n{% endblock %}\n"
MONITOR = "runs/r/judge/index.html"


def say(server: Server, changed: dict[str, bytes], text: str, path: str = MONITOR) -> None:
    """The page, with another first sentence."""
    import re

    page = server.get(path)
    assert page is not None
    changed[path] = re.sub(rb'(<p class="answer">).*?(</p>)', rb"\g<1>" + text.encode() + rb"\2", page, count=1)
    server.hub.publish([path])


def listeners(server: Server) -> int:
    """How many streams are open; only writing to them shows that a client has left."""
    server.hub.publish(["elsewhere.html"])
    return server.hub.listeners


def test_hidden_tabs_give_their_connection_back_and_ten_tabs_work(
    local: tuple[Server, dict[str, bytes]], context: Callable[..., BrowserContext]
) -> None:
    server, changed = local
    browser = context()
    browser.add_init_script(HIDE)
    tabs: list[Page] = []
    for _ in range(10):
        for tab in tabs:
            tab.evaluate("setHidden(true)")
        tabs.append(browser.new_page())
        tabs[-1].goto(server.url + MONITOR)
        live(tabs[-1])
        wait_for(lambda: listeners(server) == 1, tabs[-1])
    say(server, changed, "Nine were not looking.")
    shows(tabs[-1], "Nine were not looking.")
    assert "Nine" not in tabs[0].locator("main").inner_text()
    tabs[-1].evaluate("setHidden(true)")
    tabs[0].evaluate("setHidden(false)")
    shows(tabs[0], "Nine were not looking.")
    wait_for(lambda: listeners(server) == 1, tabs[0])


def test_of_many_windows_the_first_rest_and_say_so(
    local: tuple[Server, dict[str, bytes]], context: Callable[..., BrowserContext]
) -> None:
    server, changed = local
    browser = context()
    windows = []
    for _ in range(7):
        windows.append(browser.new_page())
        windows[-1].goto(server.url + MONITOR)
    live(windows[-1])
    for resting in windows[:3]:
        live(resting, "elsewhere")
    wait_for(lambda: listeners(server) == 4, windows[-1])
    say(server, changed, "Four follow.")
    shows(windows[-1], "Four follow.")
    windows[0].evaluate("dispatchEvent(new Event('focus'))")
    shows(windows[0], "Four follow.")
    live(windows[0])


def test_going_back_finds_the_page_as_it_was_and_then_as_it_is(
    local: tuple[Server, dict[str, bytes]], context: Callable[..., BrowserContext]
) -> None:
    server, changed = local
    page = context().new_page()
    page.add_init_script("addEventListener('pageshow', (event) => { window.persisted = event.persisted; })")
    page.goto(server.url + MONITOR)
    live(page)
    page.evaluate("window.kept = true")
    page.goto(server.url + "index.html")
    live(page)
    wait_for(lambda: listeners(server) == 1, page)
    say(server, changed, "Meanwhile.")
    page.evaluate("history.back()")
    shows(page, "Meanwhile.")
    assert page.evaluate("window.kept && window.persisted"), "the stream kept the page out of the back-forward cache"


def test_three_rows_on_top_of_250_cost_a_dozen_mutations(local: tuple[Server, dict[str, bytes]], page: Page) -> None:
    import re

    server, changed = local
    path = "runs/r/judge/verdicts-1.html"
    whole = server.get(path)
    assert whole is not None
    rows = re.findall(rb"<tr id=.*?</tr>\n", whole, re.DOTALL)
    assert len(rows) == 250
    page.goto(server.url + path)
    live(page)
    page.evaluate(MUTATIONS)
    new = b"".join(re.sub(rb'id="[^"]*"', b'id="new-%d"' % n, rows[n], count=1) for n in range(3))
    changed[path] = whole.replace(rows[0], new + rows[0], 1)
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    server.hub.publish([path])
    page.wait_for_selector("#new-2.is-new")
    assert page.locator("tbody tr").count() == 253
    assert page.evaluate("window.mutations.length") <= 12
    assert asked == [], "what is new comes with the stream"


def test_a_page_that_does_not_fit_what_is_pushed_is_fetched_whole(
    local: tuple[Server, dict[str, bytes]], page: Page
) -> None:
    server, changed = local
    page.goto(server.url + MONITOR)
    live(page)
    page.locator(".verdicts tbody tr").first.evaluate("row => row.remove()")
    say(server, changed, "All of it.")
    shows(page, "All of it.")
    assert page.locator(".verdicts tbody tr").count() == 50


# -- faults


def test_a_fault_shows_as_a_page_and_goes_away_when_mended(cli: Cli, page: Page) -> None:
    own = cli.home / "own"
    own.mkdir()
    with growing(cli, "--templates", str(own)) as run:
        page.goto(run.monitor)
        live(page)
        page.locator(".verdicts summary").first.click()
        (own / "pack.html").write_text(BROKEN)
        shows(page, "pack.html:3")
        assert page.locator("h1").inner_text() == "The site could not be built"
        fresh = page.context.new_page()
        answer = fresh.goto(run.url)
        assert answer is not None and answer.status == 503 and "pack.html:3" in fresh.content()
        run.append(1)
        page.wait_for_timeout(200)
        assert "pack.html:3" in page.locator("main").inner_text()
        (own / "pack.html").unlink()
        shows(page, run.said)
        assert page.locator(".verdicts details").first.evaluate("details => details.open") or (
            page.locator(".verdicts details[open]").count() == 1
        )
        fresh.wait_for_selector("text=All runs, newest first")


def test_a_fault_at_the_start_is_a_page_too(cli: Cli, page: Page) -> None:
    own = cli.home / "own"
    own.mkdir()
    (own / "index.html").write_text("{% block %}")
    with growing(cli, "--templates", str(own)) as run:
        page.goto(run.url)
        shows(page, "index.html:1")
        (own / "index.html").unlink()
        page.wait_for_selector("text=All runs, newest first")


def test_a_changed_style_is_taken_over_in_place(cli: Cli, page: Page) -> None:
    own = cli.home / "own"
    (own / "assets").mkdir(parents=True)
    with growing(cli, "--templates", str(own)) as run:
        page.goto(run.monitor)
        live(page)
        page.evaluate("window.kept = true")
        (own / "assets" / "style.css").write_text("h1{color:rgb(1, 2, 3)}")
        page.wait_for_function("() => getComputedStyle(document.querySelector('h1')).color === 'rgb(1, 2, 3)'")
        assert page.evaluate("window.kept")


def test_a_changed_config_is_followed(cli: Cli, page: Page) -> None:
    with growing(cli) as run:
        page.goto(run.url)
        live(page)
        (cli.home / "touchstone.yaml").write_text("lang: [de, en]\n")
        shows(page, "Läufe")
        (cli.home / "touchstone.yaml").write_text("lang: [xx]\n")
        shows(page, "touchstone.yaml:1")
        (cli.home / "touchstone.yaml").unlink()
        shows(page, "All runs")


# -- the policy


def test_the_policy_lets_our_scripts_run_and_no_others(cli: Cli, context: Callable[..., BrowserContext]) -> None:
    page = context().new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    with growing(cli) as run:
        page.goto(run.monitor)
        live(page)
        assert refused == []
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = 1";
                document.body.append(script);
                const image = document.createElement("img");
                image.setAttribute("onerror", "window.ran = 2");
                image.src = "https://example.org/x.png";
                document.body.append(image);
                const far = document.createElement("script");
                far.src = "https://example.org/x.js";
                document.body.append(far);
            }"""
        )
        wait_for(lambda: len(refused) >= 3, page)
        assert page.evaluate("window.ran") is None
        run.append(1)
        shows(page, run.said)
