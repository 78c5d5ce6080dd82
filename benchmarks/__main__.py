"""`python -m benchmarks`: measures, prints a table, keeps it as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psutil

from benchmarks import browser, builds, judging, live, peers, startup
from benchmarks.content import Store
from benchmarks.figures import Figure, as_json, table
from benchmarks.measure import ROOT, Failed, once, touchstone

Case = Callable[[Path, Store, bool], Iterator[Figure]]
"""(folder to work in, content, whether to be quick) to figures, each as soon as it is known."""

CASES: Final[dict[str, Case]] = {
    "startup": startup.startup,
    "ten-thousand": builds.ten_thousand,
    "thousand": builds.thousand,
    "million": builds.million,
    "pages": builds.pages,
    "first-row": browser.first_row,
    "dom": live.dom,
    "streams": live.streams,
    "flat": live.flat,
    "overhead": judging.overhead,
    "throughput": judging.throughput,
    "monitored": judging.monitored,
}
PEERS: Final[dict[str, Case]] = {"peers-judged": peers.judged, "peers-pages": peers.pages}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure touchstone beside floor programs.")
    parser.add_argument(
        "--only", action="append", metavar="CASE", help=f"one of {', '.join({**CASES, **PEERS})}; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="smaller contents and fewer runs; for trying out")
    parser.add_argument(
        "--peers", action="store_true", help="install other programs into the work folder, run them too"
    )
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="folder for contents and sites [.bench]")
    parser.add_argument("--json", type=Path, help="file for the figures [<work>/figures.json]")
    parser.add_argument("--table", type=Path, help="Markdown file for the table too")
    given = parser.parse_args()
    unknown = set(given.only or ()) - {**CASES, **PEERS}.keys()
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join({**CASES, **PEERS})}")
    return given


def machine(work: Path) -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "touchstone": once(touchstone("--version"), work)[3].strip(),
    }


def measured(name: str, case: Case, work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """The figures of a case; a case that fails is a figure too, and the others go on."""
    print(f"-- {name}", file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        for figure in case(work, store, quick):
            print(table([figure]).splitlines()[-1], file=sys.stderr, flush=True)
            yield figure
    except Failed as error:
        yield Figure(name, "could not be measured", None, "", note=str(error))
    except Exception as error:
        traceback.print_exc()
        yield Figure(name, "could not be measured", None, "", note=f"{type(error).__name__}: {error}")
    print(f"   {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def main() -> int:
    given = options()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    store = Store(work)
    about = machine(work)
    figures: list[Figure] = []
    chosen = given.only or [*CASES, *(PEERS if given.peers else ())]
    for name in chosen:
        figures += measured(name, {**CASES, **PEERS}[name], work, store, given.quick)
    about["load_after"] = [round(load, 2) for load in os.getloadavg()]
    target = given.json or work / "figures.json"
    target.write_text(
        json.dumps({"machine": about, "quick": given.quick, "figures": as_json(figures)}, indent=1) + "\n"
    )
    text = table(figures)
    print(text)
    told = [f"{about['system']}, {about['cores']} cores", f"Python {about['python']}", str(about["touchstone"])]
    print(f"{', '.join(told)}; load before {about['load_before']}, after {about['load_after']}")
    if given.table:
        given.table.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
