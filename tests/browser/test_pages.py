"""Every kind of page as people see it: both languages, light and dark, desktop and phone, large text, no JavaScript.

axe takes seconds for a long table, so here each kind meets it once: language, theme and width go round. All
combinations: `make pages-check`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import BrowserContext, Page

from tests.showcase import KINDS, LANGS, ONCE, showcase
from tools import htmlcheck

EVERY = os.environ.get("TOUCHSTONE_PAGES") == "all"
COMBINATIONS = (("light", 1280), ("dark", 390), ("dark", 1280), ("light", 390))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return showcase(tmp_path_factory.mktemp("pages"))


def pages(site: Path, langs: tuple[str, ...] = LANGS) -> Iterator[Path]:
    for kind, path in KINDS.items():
        for root in langs if kind not in ONCE else ("",):
            assert (site / root / path).is_file(), f"no page of the kind {kind!r}"
            yield site / root / path


def opened(context: Callable[..., BrowserContext], theme: str, width: int, **options: Any) -> Page:
    page = context(color_scheme=theme, viewport={"width": width, "height": 900}, **options).new_page()
    page.set_default_timeout(60_000)
    return page


TOO_WIDE = """() => {
    const root = document.documentElement;
    const inside = (element) => element.parentElement?.closest(".scroll, pre, .md table") ?? null;
    const name = (element) => [element.tagName, ...element.classList].join(".");
    const found = [];
    for (const size of ["100%", "200%"]) {
        root.style.fontSize = size;
        const room = root.clientWidth;
        if (root.scrollWidth <= room) continue;
        const wide = [...document.querySelectorAll("body *")]
            .filter((element) => element.getBoundingClientRect().right > room + 1 && !inside(element))
            .map((element) => name(element) + ": " + element.textContent.trim().slice(0, 30));
        found.push(size + ": " + wide.slice(-3).join(", "));
    }
    root.style.fontSize = "";
    return found;
}"""
AXE = """() => axe.run(document, {resultTypes: ["violations"]}).then((result) => result.violations.map((each) =>
    each.id + " (" + each.help + "): " + each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" ")))"""


def test_html_validate_finds_nothing(site: Path) -> None:
    assert htmlcheck.find(), "html-validate is not installed; `make unit` does that (tools/htmlcheck.py)"
    assert htmlcheck.check(sorted(site.rglob("*.html")) if EVERY else pages(site)) == []


def test_nothing_overflows_also_with_large_text(site: Path, context: Callable[..., BrowserContext]) -> None:
    page = opened(context, "light", 1280)
    found = []
    for path in pages(site):
        page.goto(path.as_uri())
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            for theme in ("light", "dark") if EVERY else ("light",):
                page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
                found += [f"{path.relative_to(site)}, {width}, {theme}, {wide}" for wide in page.evaluate(TOO_WIDE)]
    assert found == []


def test_axe_finds_nothing(site: Path, context: Callable[..., BrowserContext]) -> None:
    page = opened(context, "light", 1280)
    found = []
    for number, path in enumerate(pages(site)):
        # By turns in the one language and in the other.
        if not EVERY and number % 4 in (1, 2) and path.name not in ("404.html", "fault.html"):
            continue
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.evaluate(AXE_SCRIPT)
        for theme, width in COMBINATIONS if EVERY else (COMBINATIONS[number // 4 % 4],):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            found += [f"{path.relative_to(site)}, {width}, {theme}: {fault}" for fault in page.evaluate(AXE)]
    assert found == []


def test_from_a_folder_all_links_lead_somewhere_and_nothing_fails(
    site: Path, context: Callable[..., BrowserContext]
) -> None:
    page = opened(context, "light", 1280)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    foreign: list[str] = []
    page.on("request", lambda request: None if request.url.startswith("file:") else foreign.append(request.url))
    for path in pages(site):
        if path.name == "fault.html" or "web" in path.relative_to(site).parts:  # a server's
            continue
        page.goto(path.as_uri())
        for link in page.evaluate("[...document.links].map((link) => link.href)"):
            parts = urlsplit(link)
            if parts.scheme == "file":
                target = Path(unquote(parts.path))
                assert target.is_file() and target.is_relative_to(site), f"{path}: {link}"
            else:
                assert parts.scheme in ("http", "https", "mailto"), f"{path}: {link}"
    assert faults == [] and foreign == []


def test_without_javascript_everything_is_there(site: Path, context: Callable[..., BrowserContext]) -> None:
    with_script, without = opened(context, "light", 1280), opened(context, "light", 1280, java_script_enabled=False)
    for path in pages(site, ("",)):
        texts = []
        for page in (with_script, without):
            page.goto(path.as_uri())
            texts.append(" ".join((page.locator("main").text_content() or "").split()))
        assert texts[0] == texts[1] != "", path
        assert without.locator("button").count() == 0


def test_filters_work_without_javascript(site: Path, context: Callable[..., BrowserContext]) -> None:
    page = opened(context, "light", 1280, java_script_enabled=False)
    page.goto((site / "runs/hard/judge/verdicts-1.html").as_uri())
    rows = page.locator(".verdicts tbody tr:visible")
    every = rows.count()
    for label, kind in (("Red flags", "red"), ("Score 1 or 2", "low"), ("Unscored", "un")):
        page.locator(".filter label", has_text=label).click()
        assert 0 < rows.count() < every and rows.count() == page.locator(f".verdicts tbody tr.{kind}").count()
    page.locator(".filter label", has_text="All on this page").click()
    assert rows.count() == every


def test_the_keyboard_reaches_the_content_and_the_filters(site: Path, context: Callable[..., BrowserContext]) -> None:
    page = opened(context, "light", 1280)
    page.goto((site / KINDS["judge"]).as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.locator("#f-all").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.querySelector('#f-red').checked")


def test_on_paper_there_are_no_controls_and_everything_is_unfolded(
    site: Path, context: Callable[..., BrowserContext]
) -> None:
    page = opened(context, "dark", 800)
    page.goto((site / KINDS["hard answers"]).as_uri())
    page.emulate_media(media="print", color_scheme="light")
    for hidden in (".tabs", ".lang", ".pager"):
        assert page.locator(f"{hidden}:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details .pre").first.bounding_box() is not None
