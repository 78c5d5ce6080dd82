"""Sorting by the headings, from a folder as from a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.making import make_bundle
from touchstone.build import build
from touchstone.options import Options


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two runs, one judged in part; in both languages."""
    make_bundle(tmp_path / "runs" / "r", models=["m-b", "m-a", "m-c"], score=lambda i: [None, 3, 5, 1][i % 4])
    make_bundle(tmp_path / "runs" / "s", judged=7, created="2026-06-21T10:48:44Z")
    build(Options(runs=tmp_path / "runs", out=tmp_path / "public", langs=("en", "de"), state_home=tmp_path))
    return tmp_path / "public"


@pytest.mark.parametrize("root", ["", "de/"])
def test_the_headings_sort_and_say_how(site: Path, page: Page, root: str) -> None:
    page.goto((site / f"{root}runs/r/judge/verdicts-1.html").as_uri())
    table = page.locator("main table.t")
    published = table.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.id)")
    score = table.locator("thead th").nth(2)
    button = score.locator("button")

    def scores() -> list[str]:
        return [text.strip().splitlines()[0] for text in table.locator("tbody .c-s").all_inner_texts()]

    assert score.get_attribute("aria-sort") is None
    button.click()
    assert score.get_attribute("aria-sort") == "descending"
    known = [text for text in scores() if text.isdigit()]
    assert known == sorted(known, reverse=True) and scores()[: len(known)] == known, "what is unknown stands last"
    button.press("Enter")
    assert score.get_attribute("aria-sort") == "ascending"
    known = [text for text in scores() if text.isdigit()]
    assert known == sorted(known) and scores()[: len(known)] == known
    other = table.locator("thead th").nth(1)
    other.locator("button").press("Space")
    assert score.get_attribute("aria-sort") is None and other.get_attribute("aria-sort") == "ascending"
    models = [text.split()[0] for text in table.locator("tbody .c-m").all_inner_texts()]
    assert models == sorted(models)
    for _ in range(2):
        other.locator("button").click()
    assert table.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.id)") == published


@pytest.mark.parametrize(
    ("lang", "cells", "ordered"),
    [
        ("en", ["62%", "9.5%", "—", "100%"], ["100%", "62%", "9.5%", "—"]),
        ("de", ["62,5\u00a0%", "1.000", "9,5", "—"], ["1.000", "62,5\u00a0%", "9,5", "—"]),
        ("en", ["850\u00a0ms", "1.2\u00a0s", "12\u00a0s"], ["12\u00a0s", "1.2\u00a0s", "850\u00a0ms"]),
        ("de", ["1,5\u00a0GB", "900,0\u00a0MB", "2,0\u00a0kB"], ["1,5\u00a0GB", "900,0\u00a0MB", "2,0\u00a0kB"]),
        ("en", ["+0.5", "−1.25", "±0.00"], ["+0.5", "±0.00", "−1.25"]),
        ("en", ["12/48", "7/48", "30/48"], ["30/48", "12/48", "7/48"]),
        ("en", ["run 10", "run 9", "Äpfel", "apple"], ["Äpfel", "apple", "run 9", "run 10"]),
        ("en", ["2026-06-21", "2025-12-30"], ["2025-12-30", "2026-06-21"]),
        ("en", ["x", "3", "20"], ["3", "20", "x"]),
    ],
    ids=["per cent", "German", "units of time", "units of size", "signs", "of how many", "words", "dates", "mixed"],
)
def test_what_cells_are_sorted_by(site: Path, page: Page, lang: str, cells: list[str], ordered: list[str]) -> None:
    rows = "".join(f"<tr><td>{cell}</td></tr>" for cell in cells)
    page.set_content(
        f'<!doctype html><html lang="{lang}"><main><table class="t"><thead><tr><th>H</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></main></html>"
    )
    page.add_script_tag(path=site / "assets" / "tables.js")
    page.get_by_role("button").click()
    found = [text.strip() for text in page.locator("td").all_text_contents()]
    assert found == ordered


def test_tables_that_cannot_be_sorted_are_left_alone(site: Path, page: Page) -> None:
    page.set_content(
        '<main><table class="t"><thead><tr><th colspan="2">H</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr>'
        '<tr><td>3</td><td>4</td></tr></tbody></table><table class="t"><thead><tr><th>H</th></tr></thead><tbody><tr>'
        "<td>1</td></tr></tbody></table><table class='t'><tbody><tr><td>1</td></tr></tbody></table></main>"
    )
    page.add_script_tag(path=site / "assets" / "tables.js")
    assert page.get_by_role("button").count() == 0
