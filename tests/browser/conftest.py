"""A real Chromium, started once for all files of this folder; each test opens pages of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tools.browser import find

FLAGS = ["--disable-dev-shm-usage", "--disable-extensions", "--no-first-run"]


# Not for the session: while Playwright runs, its event loop would be in the way of other tests' asyncio.run.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The browser itself."""
    path = find()
    assert path is not None, "no Chromium; `make unit` installs one (tools/browser.py)"
    with sync_playwright() as playwright:
        # Without its sandbox, which is Playwright's default: it refuses to work for root and in many containers.
        browser = playwright.chromium.launch(
            executable_path=path,
            args=FLAGS,
            # Playwright would switch it off, and with it what happens when people go back.
            ignore_default_args=["--disable-back-forward-cache"],
        )
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browser contexts (options as Playwright's `new_context`); they are closed after the test."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        new = chromium.new_context(**{"locale": "en-GB", **options})
        new.set_default_timeout(60_000)
        made.append(new)
        return new

    yield make
    for each in made:
        each.close()


@pytest.fixture
def page(context: Callable[..., BrowserContext]) -> Iterator[Page]:
    """A page at 1280 × 900. Errors of its scripts and refusals by its security policy fail the test."""
    new = context(viewport={"width": 1280, "height": 900}).new_page()
    faults: list[str] = []
    new.on("pageerror", lambda error: faults.append(str(error)))
    new.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
    yield new
    assert faults == []
