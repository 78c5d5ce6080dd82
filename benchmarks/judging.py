"""`touchstone judge`: what a verdict costs beside the model's own time, and whether all slots are kept busy."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.content import Shape, Store
from benchmarks.figures import Figure
from benchmarks.measure import PYTHON, ROOT, Failed, environment, once, touchstone

SHAPE = Shape(1, 2, 50, 20, answers=True, short=True)
"""2,000 answers in two cells."""


@contextmanager
def endpoint(delay_s: float) -> Iterator[str]:
    """A running stand-in; its address without /v1."""
    with subprocess.Popen(
        [PYTHON, "-m", "benchmarks.endpoint", str(delay_s)],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/stats", timeout=10) as response:
        found: dict[str, Any] = json.load(response)
        return found


class Judge:
    """Judges fresh copies of one bundle, as often as asked."""

    def __init__(self, work: Path, store: Store) -> None:
        self.home = work / "judging"
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        self._source = next(store.runs("judging", SHAPE).iterdir())

    def bundle(self, answers: int) -> Path:
        """A bundle with the first `answers` answers, nothing judged."""
        bundle = self.home / "runs" / "bundle"
        shutil.rmtree(bundle, ignore_errors=True)
        bundle.mkdir(parents=True)
        for name in ("pack.yaml", "bundle.yaml"):
            shutil.copy(self._source / name, bundle)
        with (self._source / "answers.jsonl").open(encoding="utf-8") as source:
            lines = [line for line, _ in zip(source, range(answers), strict=False)]
        (bundle / "answers.jsonl").write_text("".join(lines), encoding="utf-8")
        return bundle

    def run(self, urls: list[str], answers: int, concurrency: int, *flags: str) -> tuple[float, float, int]:
        """(wall, cpu, peak of the largest process) of one judge run. Raises Failed."""
        config: dict[str, Any] = {"model": "bench", "concurrency": concurrency}
        config |= {"endpoint": f"{urls[0]}/v1"} if len(urls) == 1 else {"endpoints": [f"{url}/v1" for url in urls]}
        (self.home / "judge.yaml").write_text(json.dumps(config), encoding="utf-8")
        bundle = self.bundle(answers)
        wall, cpu, peak, _ = once(
            touchstone("judge", "--bundle", str(bundle), "--judge-config", "judge.yaml", *flags), self.home
        )
        lines = (bundle / "judgements.jsonl").read_bytes().splitlines()
        if len(lines) != answers or any(json.loads(line)["unscored"] for line in lines):
            raise Failed("the judge did not score every answer")
        return wall, cpu, peak

    def spans(self, delay_s: float, servers: int, answers: int, concurrency: int, *flags: str) -> float:
        """Seconds from the first request for a verdict to the last reply, over all servers."""
        with ExitStack() as stack:
            urls = [stack.enter_context(endpoint(delay_s)) for _ in range(servers)]
            self.run(urls, answers, concurrency, *flags)
            found = [stats(url) for url in urls]
        if sum(one["verdicts"] for one in found) != answers:
            raise Failed("not every answer was asked for exactly once")
        return max(float(one["span_s"]) for one in found)


def overhead(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """Processor time and memory for each verdict where the model takes none."""
    case = "judge, an endpoint that answers at once"
    judge = Judge(work, store)
    many, few = (500, 50) if quick else (2000, 100)
    costs, peaks = [], []
    for _ in range(2 if quick else 4):
        with endpoint(0.0) as url:
            base, full = judge.run([url], few, 1), judge.run([url], many, 1)
        costs.append(1000 * (full[1] - base[1]) / (many - few))
        peaks.append((full[2] - base[2]) / (many - few))
    note = f"({many:,} verdicts − {few}) ÷ {many - few:,}, fsync on; {1000 * full[0] / many:.1f} ms of wall time"
    yield Figure(case, "processor time per verdict", statistics.median(costs), "ms", 3, note=note)
    kept = statistics.median(peaks)
    note = f"peak at {many:,} verdicts {full[2] / 1e6:.0f} MB, at {few} {base[2] / 1e6:.0f} MB"
    yield Figure(case, "memory per verdict", kept, "B", note=note)


def throughput(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """All slots busy, on one server and on two."""
    case = "judge, 200 ms an answer, 8 slots"
    judge = Judge(work, store)
    answers = 160 if quick else 800
    one, two = [], []
    for _ in range(1 if quick else 3):
        one.append(judge.spans(0.2, 1, answers, 8))
        two.append(judge.spans(0.2, 2, answers, 8))
    ideal = answers * 0.2 / 8
    single, double = statistics.median(one), statistics.median(two)
    note = f"{answers} verdicts in {single:.2f} s, ideal {ideal:.2f} s"
    yield Figure(case, "of the ideal throughput", 100 * ideal / single, "%", 95, least=True, note=note)
    yield Figure(case, "two endpoints ÷ one", single / double, "×", 1.9, least=True, note=f"{double:.2f} s")


def monitored(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """What the monitor costs the run."""
    case = "judge --web beside --events, 20 ms an answer"
    judge = Judge(work, store)
    answers = 300 if quick else 2000
    ratios, walls = [], []
    for _ in range(2 if quick else 3):
        plain = judge.spans(0.02, 1, answers, 1, "--events")
        web = judge.spans(0.02, 1, answers, 1, "--web", "--no-open")
        ratios.append(web / plain)
        walls.append(web)
    note = f"{answers:,} verdicts in {statistics.median(walls):.1f} s, start-up left out"
    yield Figure(case, "longer by", 100 * (statistics.median(ratios) - 1), "%", 3, note=note)
