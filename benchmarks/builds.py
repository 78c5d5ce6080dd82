"""`touchstone build`: cold, with nothing changed, with little changed; from ten thousand verdicts to a million."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.content import MILLION, SMALL, TEN_THOUSAND, Shape, Store, bundle_name, verdict_line
from benchmarks.figures import Figure
from benchmarks.measure import PYTHON, Contender, Times, in_turn, once, touchstone, tree_bytes, tree_count

PAGE_SUFFIXES = (".html", ".css", ".js")


@dataclass(frozen=True)
class Place:
    """A folder in which one kind of build is measured: `site` is ours, `floor` the floor program's."""

    home: Path
    runs: Path

    @property
    def ours(self) -> Contender:
        return Contender(touchstone("build", "--runs", str(self.runs), "--out", "site"), self.home, self.clean)

    @property
    def again(self) -> Contender:
        """The same, into the site that is there."""
        return Contender(self.ours.command, self.home)

    @property
    def floor(self) -> Contender:
        command = [PYTHON, "-m", "benchmarks.floor.bundles", str(self.runs), str(self.home / "floor")]
        return Contender(command, self.home, lambda: shutil.rmtree(self.home / "floor", ignore_errors=True))

    def clean(self) -> None:
        shutil.rmtree(self.home / "site", ignore_errors=True)
        shutil.rmtree(self.home / ".touchstone", ignore_errors=True)


def _place(work: Path, name: str, runs: Path, *, copied: bool = False) -> Place:
    home = work / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if copied:
        # Logs are appended to; the content that is kept stays as it is.
        shutil.copytree(runs, home / "runs")
    return Place(home, home / "runs" if copied else runs)


def _append(bundle: Path, count: int) -> None:
    """One more verdict: the first key judged anew, with other words, as a second judging would."""
    line = json.loads((bundle / "judgements.jsonl").open(encoding="utf-8").readline())
    key = (line["model"], line["variant"], line["prompt_id"], line["repeat"])
    with (bundle / "judgements.jsonl").open("a", encoding="utf-8") as file:
        file.write(verdict_line(key, count, 1 + count % 5, f"Judged anew, time {count}.") + "\n")


def _cold(case: str, place: Place, runs: int, most: float | None) -> tuple[list[Figure], Times]:
    ours, floor = in_turn(place.ours, place.floor, runs=runs, memory=True)
    site, least = place.home / "site", place.home / "floor"
    note = f"{ours.cpu_s:.1f} s of processor time; the floor {floor.s:.2f} s, {floor.cpu_s:.1f} s"
    return [
        Figure(case, "cold", ours.s, "s", note=note),
        Figure(
            case,
            "cold ÷ floor",
            ours.s / floor.s,
            "×",
            most,
            note=f"{ours.cpu_s / floor.cpu_s:.2f} × in processor time",
        ),
        Figure(
            case,
            "size",
            tree_bytes(site) / 1e6,
            "MB",
            note=f"{tree_count(site)} files; the floor {tree_bytes(least) / 1e6:.1f} MB in {tree_count(least)}",
        ),
    ], ours


def _warm(case: str, place: Place, cold: Times, runs: int, most: float) -> Figure:
    (again,) = in_turn(place.again, runs=runs)
    return Figure(
        case, "nothing changed ÷ cold", 100 * again.s / cold.s, "%", most, note=f"{again.s:.2f} s of {cold.s:.2f} s"
    )


def _one_changed(case: str, name: str, place: Place, cold: Times, runs: int, most: float | None) -> Figure:
    bundles = sorted(path for path in place.runs.iterdir() if path.is_dir())
    count = 0

    def change() -> None:
        nonlocal count
        count += 1
        _append(bundles[(count * 37) % len(bundles)], count)

    (one,) = in_turn(Contender(place.ours.command, place.home, change), runs=runs)
    return Figure(case, f"{name} ÷ cold", 100 * one.s / cold.s, "%", most, note=f"{one.s:.2f} s of {cold.s:.2f} s")


def ten_thousand(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """1 × 10,000 verdicts with answers."""
    case = "10,000 with answers"
    shape = Shape(5, 4, 50, 1, answers=True) if quick else TEN_THOUSAND
    place = _place(work, "full", store.runs("full", shape), copied=True)
    runs = 3 if quick else 5
    figures, cold = _cold(case, place, runs, None)
    yield from figures
    logs = tree_bytes(place.runs, (".jsonl",))
    pages = tree_bytes(place.home / "site", PAGE_SUFFIXES)
    yield Figure(case, "HTML, CSS, JS ÷ log and answers", pages / logs, "×", 1.6, note=f"{logs / 1e6:.1f} MB of logs")
    yield Figure(case, "peak memory", (cold.peak or cold.largest) / 1e6, "MB")
    yield _warm(case, place, cold, runs, 3)
    yield _one_changed(case, "one verdict appended", place, cold, runs, None)


def thousand(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """1,000 × 240 verdicts."""
    count = 100 if quick else 1000
    case = f"{count:,} × 240"
    place = _place(work, "thousand", store.runs("bundles", SMALL, count), copied=True)
    runs = 3
    figures, cold = _cold(case, place, runs, 2.5)
    yield from figures
    yield Figure(case, "cores used", cold.cpu_s / cold.s, "×", 1.5, least=True, note="processor time ÷ wall time, cold")
    yield Figure(case, "peak memory", (cold.peak or cold.largest) / 1e6, "MB", note="all processes together")
    yield _warm(case, place, cold, runs, 3)
    yield _one_changed(case, f"one of {count:,} changed", place, cold, runs, 5)


def million(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """1 × 1,000,000 verdicts."""
    shape = Shape(10, 5, 200, 10) if quick else MILLION
    case = f"{shape.verdicts:,}"
    place = _place(work, "million", store.runs("million", shape))
    figures, cold = _cold(case, place, 2, 3.0)
    yield from figures
    note = f"all processes together; the largest {cold.largest / 1e6:.0f} MB"
    yield Figure(case, "peak memory", (cold.peak or cold.largest) / 1e6, "MB", 400, note=note)
    yield _warm(case, place, cold, 2, 3)
    shutil.rmtree(place.home)


def pages(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """1,000 plain Markdown pages with `build --docs`."""
    count = 200 if quick else 1000
    case = f"{count:,} Markdown pages"
    home = work / "pages"
    shutil.rmtree(home, ignore_errors=True)
    (home / "runs").mkdir(parents=True)
    docs = home / "docs"
    shutil.copytree(store.pages(count), docs)
    command = touchstone("build", "--runs", "runs", "--out", "site", "--docs", "docs")
    ours = Contender(command, home, lambda: Place(home, home / "runs").clean())
    least = Contender(
        [PYTHON, "-m", "benchmarks.floor.pages", str(docs), str(home / "floor")],
        home,
        lambda: shutil.rmtree(home / "floor", ignore_errors=True),
    )
    cold, floor = in_turn(ours, least, runs=5, memory=True)
    note = f"{cold.cpu_s:.1f} s of processor time; the floor (two processes) {floor.s:.2f} s, {floor.cpu_s:.1f} s"
    yield Figure(case, "cold", cold.s, "s", note=note)
    yield Figure(case, "cold ÷ floor", cold.s / floor.s, "×")
    yield Figure(case, "peak memory", (cold.peak or cold.largest) / 1e6, "MB", note="all processes together")
    yield Figure(
        case, "size", tree_bytes(home / "site") / 1e6, "MB", note=f"{tree_bytes(docs) / 1e6:.1f} MB of Markdown"
    )
    (again,) = in_turn(Contender(command, home), runs=5)
    yield Figure(case, "nothing changed ÷ cold", 100 * again.s / cold.s, "%", 3, note=f"{again.s:.2f} s")
    number = 0

    def change() -> None:
        nonlocal number
        number += 1
        path = docs / f"page-{number:04}.md"
        path.write_text(path.read_text(encoding="utf-8") + f"\nChanged {number} times.\n", encoding="utf-8")

    (one,) = in_turn(Contender(command, home, change), runs=5)
    yield Figure(case, f"one of {count:,} changed ÷ cold", 100 * one.s / cold.s, "%", 5, note=f"{one.s:.2f} s")


def check_runs_alone(work: Path) -> None:
    """Raises Failed where no build is possible at all, before anything is measured."""
    home = work / "probe"
    shutil.rmtree(home, ignore_errors=True)
    (home / "runs" / bundle_name(0)).mkdir(parents=True)
    once(touchstone("build", "--runs", "runs", "--out", "site"), home)
