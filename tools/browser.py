"""A real Chromium for the tests that look at pages as people do.

    python tools/browser.py --install-only

prints where it is, after installing it where there is none: as a package of the system, else as Playwright's own
build. `$CHROMIUM` names another one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
INSTALL_LIMIT = 1800.0  # seconds


class BrowserError(RuntimeError):
    """There is no browser and none could be installed; one line that says what to do."""


def find() -> str | None:
    """The path of a browser that starts; None if there is none. Raises BrowserError if `$CHROMIUM` names a bad one."""
    wanted = os.environ.get("CHROMIUM")
    if wanted:
        if not _starts(wanted):
            raise BrowserError(f"CHROMIUM={wanted}: does not start; name a Chromium or Chrome, or unset it")
        return wanted
    return next((path for path in _candidates() if _starts(path)), None)


def _candidates() -> Iterator[str]:
    yield from (path for path in map(shutil.which, NAMES) if path is not None)
    yield from (path for path in PLACES if Path(path).is_file())
    path = _playwrights_own()
    if path is not None:
        yield path


def _playwrights_own() -> str | None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def _starts(path: str) -> bool:
    """Whether it is a browser at all: some systems have a `chromium` that only tells how to get one."""
    if sys.platform == "win32":  # where `--version` opens a window
        return Path(path).is_file()
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0
    return False


def install() -> str:
    """The path of a browser, newly installed. Raises BrowserError."""
    for command in _ways():
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=INSTALL_LIMIT, check=False)
        found = find()
        if found is not None:
            return found
    raise BrowserError("no Chromium found and none could be installed; install one, or set CHROMIUM to its path")


def _ways() -> Iterator[list[str]]:
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
        package = [*apt, "install", "-y", "--no-install-recommends", "chromium"]
        yield package
        # The lists of a fresh machine are empty, or name versions that are gone.
        yield [*apt, "update"]
        yield package
    yield [sys.executable, "-m", "playwright", "install", "chromium"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Find a Chromium, or install one.")
    parser.add_argument("--install-only", action="store_true", help="install one if there is none, and print its path")
    options = parser.parse_args()
    try:
        found = find() or (install() if options.install_only else None)
    except BrowserError as error:
        print(f"browser: {error}", file=sys.stderr)
        return 1
    if found is None:
        print("browser: no Chromium found; --install-only installs one", file=sys.stderr)
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
