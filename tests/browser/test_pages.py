"""Every kind of page as people see it: both languages, light and dark, desktop and phone, large text, no JavaScript."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import BrowserContext, Page

from tests.builders import append
from tests.conftest import ROOT
from tests.making import PACK, make_bundle
from tests.test_judge_compare import FIVE, quality
from touchstone.build import build
from touchstone.live.fault import STYLE, STYLE_URL, fault_page
from touchstone.options import Options

SAMPLE = "2026-11-30_235252_eval_ndassist"
WIDE = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenhersteller/" * 2
LANGS = ("", "de/")
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample runs, and one with everything that they lack and names that do not fit anywhere."""
    home = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "runs", home / "runs", ignore=shutil.ignore_patterns(".*"))
    pack = {**PACK, "title": WIDE, "variants": [*PACK["variants"], {"id": "long-" + "v" * 60, "system": WIDE}]}
    hard = make_bundle(
        home / "runs" / "hard",
        models=["org/" + "m" * 90, "m-two", *(f"model-{n}" for n in range(2))],
        pack=pack,
        score=lambda i: None if i % 7 == 3 else i % 5 + 1,
        text=f"# {WIDE}\n\n| a | b |\n|---|---|\n| {WIDE} | 2 |\n\n```\n{WIDE * 3}\n```\n\nשלום 漢字 🦊\n\n{'x' * 300}",
        rationale=f"{WIDE} " * 4,
        judge="judges/" + "j" * 80,
        created="2026-12-02T10:00:00Z",
    )
    append(
        hard / "resources.jsonl",
        *({"ts": 1000.0 + 10 * n, "ram_used_bytes": 6e9 + n * 1e8, "ram_available_bytes": 10e9, "cpu_percent": n % 100,
           "pressure": ["normal", "warn", "critical"][n % 3], "throttled": n % 5 == 0} for n in range(60)),
    )  # fmt: skip
    body = f"# Judge quality\n\n## Headline\n\nSome **text** and {WIDE}.\n\n| cell | Δ |\n|---|---|\n| {WIDE} | 1 |\n"
    for name, fields in (("hard", {}), ("second", {"judge_model": "judge-b"}), ("third", {"judge_model": "judge-c"})):
        given: dict[str, Any] = {"pack": "probe", "pack_sha": "a" * 64, "judge_model": "judges/" + "j" * 80}
        figures = {"reference": "Model X, 2026-06-20", "pairs": 80, "pairs_expected": 96, "bias": 0.25, "qwk": 0.41,
                   "qwk_low": 0.1, "qwk_high": 0.7, "exact_rate": 0.5, "outliers": 3, "ko_missed": 1}  # fmt: skip
        quality(home / "runs" / name, body, **{**given, **FIVE, **figures, **fields})
    options = Options(home / "runs", home / "public", ("en", "de"), state_home=home, docs=ROOT / "docs")
    build(options)
    fault = fault_page(f"own/{WIDE}index.html:3: {WIDE}", "en")
    (home / "public" / "fault.html").write_bytes(fault.replace(STYLE_URL.encode(), b"fault.css"))
    (home / "public" / "fault.css").write_bytes(STYLE)
    return home / "public"


KINDS = {
    "index": "index.html",
    "result": f"runs/{SAMPLE}/index.html",
    "answers": f"runs/{SAMPLE}/answers-1.html",
    "judge": f"runs/{SAMPLE}/judge/index.html",
    "verdicts": f"runs/{SAMPLE}/judge/verdicts-1.html",
    "flagged": f"runs/{SAMPLE}/judge/flagged-1.html",
    "eval": f"runs/{SAMPLE}/eval/index.html",
    "pack": "packs/ndassist/index.html",
    "compare": "compare/index.html",
    "compare judges": "compare-judges/index.html",
    "hard result": "runs/hard/index.html",
    "hard answers": "runs/hard/answers-1.html",
    "hard judge": "runs/hard/judge/index.html",
    "hard flagged": "runs/hard/judge/flagged-1.html",
    "hard eval": "runs/hard/eval/index.html",
    "quality": "runs/hard/judge-quality/index.html",
    "docs": "docs/index.html",
    "a doc": "docs/commands.html",
    "not found": "404.html",
    "fault": "fault.html",
}
ONCE = ("not found", "fault")


def paths(site: Path, langs: tuple[str, ...] = LANGS) -> Iterator[Path]:
    for kind, path in KINDS.items():
        for root in langs if kind not in ONCE else ("",):
            assert (site / root / path).is_file(), f"no page of the kind {kind!r}"
            yield site / root / path


def opened(context: Callable[..., BrowserContext], theme: str, width: int, **options: Any) -> Page:
    page = context(color_scheme=theme, viewport={"width": width, "height": 900}, **options).new_page()
    page.set_default_timeout(60_000)
    return page


TOO_WIDE = """(factor) => {
    const root = document.documentElement;
    root.style.fontSize = 100 * factor + "%";
    const room = root.clientWidth;
    if (root.scrollWidth <= room) return [];
    const inside = (element) => element.parentElement?.closest(".scroll, pre, .md table") ?? null;
    const name = (element) => [element.tagName, ...element.classList].join(".");
    return [...document.querySelectorAll("body *")]
        .filter((element) => element.getBoundingClientRect().right > room + 1 && !inside(element))
        .map((element) => name(element) + ": " + element.textContent.trim().slice(0, 30)).slice(-3);
}"""


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows_also_with_large_text(site: Path, context: Callable[..., BrowserContext], width: int) -> None:
    page = opened(context, "light", width)
    found = []
    for path in paths(site):
        page.goto(path.as_uri())
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for factor in (1, 2):
                wide = page.evaluate(TOO_WIDE, factor)
                if wide:
                    found.append(f"{path.relative_to(site)}, {theme}, {factor * 100} %: {wide}")
    assert found == []


@pytest.mark.parametrize(("theme", "width", "root"), [("light", 1280, ""), ("dark", 390, "de/")])
def test_axe_finds_nothing(
    site: Path, context: Callable[..., BrowserContext], theme: str, width: int, root: str
) -> None:
    page = opened(context, theme, width)
    axe = Axe()
    found = []
    for path in paths(site, (root,)):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for violation in axe.run(page).response["violations"]:
            nodes = [node["html"][:160] for node in violation["nodes"]]
            found.append(f"{path.relative_to(site)}: {violation['id']} ({violation['help']}): {nodes[:3]}")
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
    for path in paths(site):
        if path.name == "fault.html":
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
    for path in paths(site, ("",)):
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
