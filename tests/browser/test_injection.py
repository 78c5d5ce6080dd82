"""Attacks in every field of every artifact, in a real browser: with the security policy on, and without it.

With the policy a script of theirs could not run even if it got into a page; so that this hides nothing, no element,
attribute or address of theirs may be there, the policy may have nothing to refuse, and the same holds where it is off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.live import live, shows
from tests.conftest import Cli
from tests.poison import FOLDER, KEY, NAME, TEXT, poison, poison_docs, poisoned
from tests.test_serve import running
from tests.watching import watching
from touchstone import judge_events
from touchstone.build import build
from touchstone.live.hub import Hub
from touchstone.live.server import folder, listen
from touchstone.options import Options

EVIL = "evil" if os.name == "nt" else FOLDER  # a file system that takes no such name needs no test of it

FOUND = """(ours) => {
    const odd = [];
    if (window.owned !== undefined) odd.push("a script of theirs ran");
    const never = "img:not([loading]), iframe, object, embed, base, form:not([role=search]), style, math, "
        + "meta[http-equiv=refresh], textarea, audio, video, frame, applet";
    for (const each of document.querySelectorAll(never)) {
        if (each.tagName !== "STYLE" || each.parentElement !== document.head) odd.push(each.outerHTML.slice(0, 200));
    }
    for (const each of document.querySelectorAll("*")) {
        for (const { name, value } of each.attributes) {
            if (name.startsWith("on") || name === "style" || name === "srcdoc") odd.push(`${each.tagName} ${name}`);
            if (!/^(xlink:)?(href|src|action|formaction|data|poster)$/.test(name)) continue;
            const to = value.trim().toLowerCase();
            const own = each.matches("script, link, img, use, image");
            if (own ? !ours.some((start) => each.href?.startsWith?.(start) || each.src?.startsWith(start))
                : !/^(https?:|mailto:|file:|)$/.test(to.match(/^[^/?#]*?:/)?.[0] ?? "") || to.startsWith("//")) {
                odd.push(`${each.tagName} ${name}=${value.slice(0, 100)}`);
            }
        }
    }
    return odd;
}"""

USED = """() => {
    for (const each of document.querySelectorAll("details")) each.open = true;
    for (const each of document.querySelectorAll("main button")) each.click();
    for (const each of document.querySelectorAll("main select")) {
        each.selectedIndex = each.options.length - 1;
        each.dispatchEvent(new Event("change", { bubbles: true }));
    }
    for (const each of document.querySelectorAll("main input")) {
        each.value = "<script>";
        each.dispatchEvent(new Event("input", { bubbles: true }));
    }
    for (const each of document.querySelectorAll("main *")) {
        for (const kind of ["mouseover", "focus"]) each.dispatchEvent(new Event(kind));
    }
}"""
"""All that a reader can do on a page without leaving it."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("evil")
    poison(home / "runs" / EVIL)
    second = poison(home / "runs" / "second")  # for what stands side by side
    for log in ("answers", "events", "resources", "judge_events", "self_consistency"):
        (second / f"{log}.jsonl").unlink()
    poison_docs(home / "docs")
    return home


@pytest.fixture(scope="module")
def site(home: Path) -> Path:
    build(
        Options(
            runs=home / "runs",
            out=home / "out",
            langs=("en", "de"),
            base_url="https://x.example/",
            docs=home / "docs",
            state_home=home,
        )
    )
    return home / "out"


class Watched:
    """A page that notes what no page of ours may do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.odd: list[str] = []
        page.on("console", lambda message: self.odd.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.odd.append(str(error)))
        page.on("dialog", lambda dialog: self.odd.append(dialog.message))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "http://127.0.0.1:")):
            self.odd.append(f"asked for {request.url[:200]}")

    def look(self, url: str) -> None:
        """Open a page, do all that can be done there, and note what is wrong."""
        self.page.goto(url)
        self.check()
        self.page.evaluate(USED)
        self.check()

    def check(self) -> None:
        here = self.page.url
        start = "file:" if here.startswith("file:") else "/".join(here.split("/")[:3])
        self.odd += [f"{here}: {found}" for found in self.page.evaluate(FOUND, [start])]


def test_the_attacks_are_on_the_pages(site: Path) -> None:
    kinds = {"/".join(path.relative_to(site).parts[-2:]) for path in site.rglob("*.html")}
    assert {
        "judge/index.html", "judge/verdicts-1.html", "judge/flagged-1.html", "eval/index.html", "compare/index.html",
        "judge-quality/index.html", "compare-judges/index.html", "docs/index.html", "evil/index.html",
    } <= kinds  # fmt: skip
    without = [path for path in site.rglob("*.html") if "owned=1" not in path.read_text(encoding="utf-8")]
    assert [path.name for path in without] == ["404.html"]


def test_an_attack_that_came_through_would_be_seen(page: Page) -> None:
    for attack in ("<script>owned=1</script>", "<p onclick=x>", "<a href='javascript:x'>", "<img>", "<p style=x>"):
        page.goto("about:blank")
        page.set_content(f"<main>{attack}</main>")
        assert len(page.evaluate(FOUND, ["file:"])) == 1, attack


@pytest.mark.parametrize("policy", [True, False], ids=["with the policy", "without"])
def test_what_is_injected_stays_text_on_every_page(
    site: Path, context: Callable[..., BrowserContext], policy: bool
) -> None:
    watched = Watched(context(bypass_csp=not policy).new_page())
    for path in sorted(site.rglob("*.html")):
        german = path.relative_to(site).parts[0] == "de"
        if policy and german:
            watched.page.goto(path.as_uri())
            watched.check()
        elif policy or not german:
            watched.look(path.as_uri())
    assert watched.odd == []


def test_what_is_found_by_search_is_text(site: Path, context: Callable[..., BrowserContext]) -> None:
    watched = Watched(context(bypass_csp=True).new_page())
    for start in ("index.html", "de/index.html"):
        watched.page.goto((site / start).as_uri())
        watched.page.fill("#q", "owned=1")
        expect(watched.page.locator("#search-results li").first).to_be_visible()
        expect(watched.page.locator("#search-status")).to_contain_text("1")
        watched.check()
        for select in watched.page.locator("#search select").all():
            select.focus()
        links = watched.page.evaluate("[...document.querySelectorAll('#search-results a')].map((each) => each.href)")
        assert links
        for link in dict.fromkeys(link.partition("#")[0] for link in links):
            watched.page.goto(link)
            watched.check()
    assert watched.odd == []


def test_what_comes_while_a_page_is_open_is_text(home: Path, cli: Cli, context: Callable[..., BrowserContext]) -> None:
    bundle = poison(cli.home / "runs" / "r")
    poison_docs(cli.home / "docs")
    log = bundle / "judge_events.jsonl"
    whole = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text(whole[0], encoding="utf-8")
    watched = Watched(context().new_page())
    with running(cli, "serve", "--port", "0", "--no-open", "--docs", "docs") as (_, url):
        watched.look(url + "docs/index.html")
        plain = context().new_page()
        for path in ("docs/p.svg", "data/runs.json", "data/search-1.js"):
            plain.goto(url + path)
            assert plain.evaluate("window.owned") is None, path
        watched.page.goto(url + "runs/r/judge/index.html")
        live(watched.page)
        with log.open("a", encoding="utf-8") as file:
            line = {**poisoned(judge_events.VerdictEvent), **KEY, "prompt_id": "new", "score": 1, "unscored": False}
            file.write("".join([*whole[1:-1], json.dumps({**line, "rationale": "Newly come. " + TEXT}) + "\n"]))
        shows(watched.page, "Newly come.")
        watched.check()
        watched.page.evaluate(USED)
        watched.check()
        assert NAME[:40] in watched.page.locator("main").inner_text()
    assert watched.odd == []


@pytest.mark.parametrize("view", ["judge", "eval"])
def test_the_monitor_of_a_run_shows_text(home: Path, context: Callable[..., BrowserContext], view: str) -> None:
    watched = Watched(context().new_page())
    with watching(home / "runs" / EVIL, view, "--lang", "de,en") as (_, url):
        watched.look(url)
        found = watched.page.evaluate("[...document.links].map((each) => each.href)")
        inside = [link for link in dict.fromkeys(link.partition("#")[0] for link in found) if link.startswith(url)]
        assert len(inside) >= 4 and any("/en/" in link for link in inside)
        for link in inside if view == "judge" else ():
            watched.page.goto(link)
            watched.check()
    assert watched.odd == []


ELSEWHERE = """async (ours) => {
    const got = [];
    window.touchstoneSearch = { part: (entries) => got.push(entries), shard: (rows) => got.push(rows) };
    const tag = (name, fields) => new Promise((done) => {
        const each = Object.assign(document.createElement(name), fields);
        each.onload = () => { got.push(`${name} ${fields.src ?? fields.href}`); done(); };
        each.onerror = () => done();
        document.body.append(each);
    });
    await tag("script", { src: ours + "data/search-1.js" });
    await tag("script", { src: ours + "-/live.js" });
    await tag("img", { src: ours + "assets/icon.svg" });
    await tag("link", { rel: "stylesheet", href: ours + "assets/style.css" });
    for (const path of ["", "data/runs.json", "runs/r/index.html"]) {
        await fetch(ours + path).then((answer) => answer.text()).then((text) => got.push(text), () => {});
    }
    await new Promise((done) => {
        const stream = new EventSource(ours + "events");
        stream.onopen = () => { got.push("a stream"); done(); };
        stream.onerror = () => { stream.close(); done(); };
    });
    const frame = document.createElement("iframe");
    await new Promise((done) => { frame.onload = done; frame.src = ours; document.body.append(frame); });
    try { got.push(frame.contentDocument?.title ?? null); } catch { /* as it should be */ }
    return got.filter((each) => each !== null);
}"""


def test_a_page_from_elsewhere_gets_nothing(cli: Cli, context: Callable[..., BrowserContext]) -> None:
    """Another port is another origin, also where it is the same site."""
    poison(cli.home / "runs" / "r")
    (cli.home / "elsewhere").mkdir()
    (cli.home / "elsewhere" / "index.html").write_text("<html><head></head><body></body></html>")
    server = listen("127.0.0.1", 0, folder(cli.home / "elsewhere"), Hub("s"), b"", frozenset())
    server.start()
    page = context().new_page()
    try:
        with running(cli, "serve", "--port", "0", "--no-open") as (_, url):
            page.goto(url)
            assert page.evaluate(ELSEWHERE, url), "on our own pages it is there"
            page.goto(server.url)
            assert page.evaluate(ELSEWHERE, url) == []
    finally:
        server.stop()
