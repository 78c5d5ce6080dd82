"""What a reader waits for: bytes over the wire and time until the first row is visible, in a real Chromium."""

from __future__ import annotations

import gzip
import http.server
import shutil
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from benchmarks.content import MILLION, TEN_THOUSAND, Shape, Store
from benchmarks.figures import Figure
from benchmarks.measure import once, touchstone

PAGES: Final = (
    "index.html",
    "{run}/index.html",
    "{run}/judge/index.html",
    "{run}/judge/verdicts-2.html",
    "{run}/answers-2.html",
)
MIME: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".js": "text/javascript",
}

FIRST_ROW: Final = """
(() => {
  const look = () => {
    const row = document.querySelector("main tbody tr, main article");
    if (row && row.getBoundingClientRect().height > 0) {
      requestAnimationFrame(() => { window.__row = performance.now(); });
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
LEAST: Final = "<!doctype html><title>t</title><main><table><tbody><tr><td>a</td></tr></tbody></table></main>"
"""A page with one row: what this browser on this machine needs for nothing."""
BYTES: Final = """
performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)
"""


@contextmanager
def zipped(root: Path) -> Iterator[str]:
    """The folder over HTTP as hosts of static sites serve it: gzipped. Yields its address."""

    @lru_cache(maxsize=64)
    def body(path: Path) -> bytes:
        return gzip.compress(path.read_bytes(), 6)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            path = root / unquote(urlsplit(self.path).path).lstrip("/")
            data = body(path) if path.is_file() else b""
            self.send_response(200 if path.is_file() else 404)
            self.send_header("Content-Type", MIME.get(path.suffix, "application/octet-stream"))
            if data:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def _visit(browser: Any, url: str, attempts: int) -> tuple[float, int]:
    """(median milliseconds until the first row is visible, bytes over the wire); each visit in a fresh profile."""
    times: list[float] = []
    size = 0
    for _ in range(attempts):
        context = browser.new_context()
        page = context.new_page()
        page.add_init_script(FIRST_ROW)
        page.goto(url, wait_until="load")
        page.wait_for_function("window.__row !== undefined", timeout=60_000)
        times.append(float(page.evaluate("window.__row")))
        size = int(page.evaluate(BYTES))
        context.close()
    return statistics.median(times[1:]), size


def first_row(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """First row visible, and bytes until then, whatever the size."""
    from playwright.sync_api import sync_playwright

    from tools.browser import find

    small = Shape(5, 4, 50, 1, answers=True)
    sizes = {"full": small if quick else TEN_THOUSAND, "million": Shape(10, 5, 200, 2) if quick else MILLION}
    for name, shape in sizes.items():
        runs = store.runs(name, shape)
        home = work / f"browser-{name}"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        once(touchstone("build", "--runs", str(runs), "--out", "site"), home)
        run = f"runs/{next(runs.iterdir()).name}"
        case = f"first row, {shape.verdicts:,} verdicts"
        with zipped(home / "site") as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
            attempts = 4 if quick else 8
            (home / "site" / "least.html").write_text(LEAST)
            least, _ = _visit(browser, url + "least.html", attempts)
            for template in PAGES:
                path = template.format(run=run)
                if not (home / "site" / path).is_file():
                    continue
                ms, size = _visit(browser, url + path, attempts)
                shown = template.replace("{run}/", "") if "{run}" in template else "index of runs"
                yield Figure(case, f"{shown}: visible after", ms, "ms", 150, note=f"a page of one row {least:.0f} ms")
                yield Figure(case, f"{shown}: gzipped", size / 1000, "kB", 60, note="page, styles, icon")
            browser.close()
        shutil.rmtree(home)
