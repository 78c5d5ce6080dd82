"""The search in a real browser, from `file://`: what is typed is found, and leads there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.making import make_bundle
from touchstone.build import build
from touchstone.options import Options


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("search")
    make_bundle(home / "runs" / "one", models=["alpha"], rationale="It overlooks the Überdosis <b>entirely</b>.")
    make_bundle(home / "runs" / "two", models=["beta"], judge="judge-b", created="2025-01-02T00:00:00Z")
    build(Options(runs=home / "runs", out=home / "out", langs=("en", "de"), state_home=home))
    return home / "out"


@pytest.mark.parametrize(("start", "found"), [("index.html", "24 found."), ("de/index.html", "24 gefunden.")])
def test_a_reason_is_found_and_its_verdict_opened(page: Page, site: Path, start: str, found: str) -> None:
    page.goto((site / start).as_uri())
    page.fill("#q", "uberdosis ENTIRELY")
    expect(page.locator("#search-status")).to_have_text(found)
    assert page.locator("#listed").is_hidden() and page.locator("#search-results b").count() == 0
    page.locator("#search-results a").first.click()
    expect(page).to_have_url(re.compile(r"judge/verdicts-1\.html#v-"))
    assert page.locator("tr:target").count() == 1


def test_a_run_whose_folder_holds_signs_of_addresses_is_found_where_it_is(page: Page, tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "50% #1 a%41")
    build(Options(runs=tmp_path / "runs", out=tmp_path / "out", state_home=tmp_path))
    page.goto((tmp_path / "out" / "index.html").as_uri())
    page.fill("#q", "words")
    page.locator("#search-results a").first.click()
    expect(page).to_have_url(re.compile(r"judge/verdicts-1\.html#v-"))
    assert page.locator("tr:target").count() == 1


def test_prompts_and_runs_are_found(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.fill("#q", "title 11")
    expect(page.locator("#search-results li").first).to_contain_text("Prompt Title 11")
    page.fill("#q", "judge-b")
    expect(page.locator("#search-results li").first).to_contain_text("2025-01-02")
    page.fill("#q", "nothing of the kind")
    expect(page.locator("#search-status")).to_have_text("Nothing found.")
    page.fill("#q", "")
    expect(page.locator("#listed")).to_be_visible()


def test_filters_choose_among_the_runs(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator("select[name=judge]").focus()
    page.locator("select[name=judge] option[value=judge-b]").wait_for(state="attached")
    page.select_option("select[name=judge]", "judge-b")
    expect(page.locator("#search-results li")).to_have_count(1)
    page.select_option("select[name=judge]", "")
    page.select_option("select[name=month]", "2026-06")
    expect(page.locator("#search-results li")).to_have_count(1)
    expect(page.locator("#search-results li")).to_contain_text("one")


def test_nothing_is_loaded_before_somebody_searches(page: Page, site: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.wait_for_load_state("networkidle")
    assert not [url for url in asked if "search-" in url]


def test_without_scripts_there_is_no_dead_field(context: Callable[..., BrowserContext], site: Path) -> None:
    page = context(java_script_enabled=False).new_page()
    page.goto((site / "index.html").as_uri())
    assert page.locator("#search").is_hidden() and page.locator("#listed").is_visible()
