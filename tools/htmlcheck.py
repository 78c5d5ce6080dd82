"""html-validate, which says what is wrong with a page's markup.

    python tools/htmlcheck.py --install-only
    python tools/htmlcheck.py public            every page below a folder; exit code 1 if anything is found

Its packages are pinned by a lock file with hashes and are put into `.htmlcheck/`; node and npm come from the PATH,
else as packages of the system.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "tools" / "htmlcheck_npm"
CACHE = ROOT / ".htmlcheck"
INSTALL_LIMIT = 1800.0  # seconds
CHECK_LIMIT = 600.0  # seconds

RULES: Final[dict[str, str]] = {
    # A title holds the names of models and runs, which may be long; a browser cuts it where it has no room.
    "long-title": "off",
}
"""What differs from html-validate's own `recommended` set."""


class HtmlCheckError(RuntimeError):
    """The checker could not be installed or did not work; one line that says what to do."""


def find() -> Path | None:
    """The installed checker; None if it is not there or was installed from another lock file."""
    script = _home() / "node_modules" / "html-validate" / "bin" / "html-validate.mjs"
    return script if script.is_file() and shutil.which("node") else None


def _home() -> Path:
    pins = b"".join((PINS / name).read_bytes() for name in ("package.json", "package-lock.json"))
    return CACHE / hashlib.sha256(pins).hexdigest()[:12]


def install() -> Path:
    """The checker, newly installed. Raises HtmlCheckError."""
    if not (shutil.which("node") and shutil.which("npm")):
        for command in _ways_to_node():
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=INSTALL_LIMIT, check=False)
    npm = shutil.which("npm")
    if npm is None:
        raise HtmlCheckError("no npm found and none could be installed; install Node.js 20.19 or newer with npm")
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        fresh = Path(folder) / "fresh"
        shutil.copytree(PINS, fresh)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(
                command, cwd=fresh, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=INSTALL_LIMIT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise HtmlCheckError(f"npm ci took more than {INSTALL_LIMIT:.0f} s; check the network") from None
        if done.returncode:
            last = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise HtmlCheckError(f"npm ci failed (exit {done.returncode}): {last}")
        with suppress(OSError):  # somebody else was quicker
            fresh.rename(_home())
    found = find()
    if found is None:
        raise HtmlCheckError("html-validate was installed but is not there; remove .htmlcheck and try again")
    return found


def _ways_to_node() -> Iterator[list[str]]:
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
        # The lists of a fresh machine are empty, or name versions that are gone.
        yield [*apt, "update"]
        yield [*apt, "install", "-y", "--no-install-recommends", "nodejs", "npm"]


def check(paths: Iterable[Path]) -> list[str]:
    """What is wrong with these files, as `path:line: rule: message`. Raises HtmlCheckError if it cannot be said."""
    script, node = find(), shutil.which("node")
    if script is None or node is None:
        raise HtmlCheckError("html-validate is not installed; python tools/htmlcheck.py --install-only does that")
    files = [str(path.resolve()) for path in paths]
    if not files:
        raise HtmlCheckError("there is no page to check")
    with tempfile.TemporaryDirectory() as folder:
        config, reports = Path(folder) / "rules.json", Path(folder) / "found.json"
        config.write_text(json.dumps({"root": True, "extends": ["html-validate:recommended"], "rules": RULES}))
        # To a file: a long report in a pipe is cut when the process ends.
        command = [node, str(script), "--config", str(config), "--formatter", f"json={reports}", *files]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
            timeout=CHECK_LIMIT, check=False,
        )  # fmt: skip
        try:
            found = json.loads(reports.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            said = (done.stderr or done.stdout).strip() or "no reason given"
            first = said.splitlines()[0][:300]
            raise HtmlCheckError(f"html-validate failed (exit {done.returncode}): {first}") from None
    return [
        f"{report['filePath']}:{message['line']}: {message['ruleId']}: {message['message']}"
        for report in found
        for message in report["messages"]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the markup of a site's pages.")
    parser.add_argument("--install-only", action="store_true", help="install html-validate if it is not there")
    parser.add_argument("site", nargs="?", type=Path, help="folder whose pages are checked")
    options = parser.parse_args()
    if options.site is None and not options.install_only:
        parser.error("name a folder, or --install-only")
    try:
        script = find() or install()
        if options.install_only:
            print(script)
            return 0
        found = check(sorted(options.site.rglob("*.html")))
    except HtmlCheckError as error:
        print(f"htmlcheck: {error}", file=sys.stderr)
        return 1
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
