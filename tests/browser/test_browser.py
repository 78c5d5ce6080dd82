"""The browser of these tests: found, started, refused in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tools import browser

ROOT = Path(__file__).parents[2]


def test_it_looks_at_pages(page: Page) -> None:
    page.set_content("<title>t</title><p>hello")
    assert page.title() == "t" and page.evaluate("navigator.userAgent").count("Chrome") == 1


@pytest.mark.parametrize("named", ["/nowhere/chromium", sys.executable + "x"])
def test_a_browser_that_is_none_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("CHROMIUM", named)
    with pytest.raises(browser.BrowserError, match="does not start"):
        browser.find()
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/browser.py"), "--install-only"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1


def test_the_tool_prints_the_path_alone() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/browser.py"), "--install-only"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{browser.find()}\n"
