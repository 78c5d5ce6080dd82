"""How long each command takes to say its help, beside an empty click program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.content import Store
from benchmarks.figures import Figure
from benchmarks.measure import PYTHON, ROOT, Contender, in_turn, once, touchstone

MOST = 1.5


def commands(work: Path) -> list[list[str]]:
    """Every command, from the help itself; the group alone first."""
    text = once(touchstone("--help"), work)[3]
    listed = text.partition("Commands:")[2]
    names = re.findall(r"^  ([a-z][a-z-]*)(?:  |$)", listed, re.MULTILINE)
    return [[], *([name] for name in names)]


def startup(work: Path, store: Store, quick: bool) -> Iterator[Figure]:
    """`--help` of every command ÷ an empty click program."""
    empty = Contender([PYTHON, str(ROOT / "benchmarks" / "floor" / "click_empty.py"), "--help"], work)
    chosen = commands(work)
    runs = 7 if quick else 15
    times = in_turn(empty, *(Contender(touchstone(*words, "--help"), work) for words in chosen), runs=runs)
    yield Figure(
        "start-up",
        "empty click program",
        1000 * times[0].s,
        "ms",
        note=f"{1000 * times[0].cpu_s:.0f} ms of processor time",
    )
    for words, one in zip(chosen, times[1:], strict=True):
        name = " ".join(["touchstone", *words, "--help"])
        ratio = one.cpu_s / times[0].cpu_s
        note = f"{1000 * one.s:.0f} ms; {ratio:.2f} × in processor time"
        yield Figure("start-up", name, one.s / times[0].s, "×", MOST if not words else None, note=note)
