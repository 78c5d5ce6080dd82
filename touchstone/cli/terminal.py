"""How a run shows itself at the terminal: a bar with what is left on a terminal, a line for each step elsewhere.

Everything here goes to stderr, but for `table`, which only makes text. rich is imported on a terminal only. Names,
answers and messages of servers come from strangers: no control character of theirs reaches the terminal, and none of
their brackets is markup.
"""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

BAR_WIDTH = 32


class Display(Protocol):
    """What a run tells as it goes on."""

    def note(self, text: str) -> None:
        """A remark, which stays."""

    def begin(self, total: int, done: int) -> None:
        """`done` of `total` steps were done by earlier runs; they say nothing about the pace."""

    def busy(self, text: str) -> None:
        """What is under way."""

    def step(self, line: str, *, facts: str, quiet: bool = True) -> None:
        """One step is done. `facts`: how it stands. With `quiet`, `line` is left out where there is a bar."""


_shown: list[Display] = []
"""The display that is up at the moment, if there is one."""


@contextmanager
def display(unit: str) -> Iterator[Display]:
    """A display for steps that are called `unit`: a bar if stderr is a terminal, lines elsewhere."""
    with Bar(unit) if is_terminal() else nullcontext(Lines()) as shown:
        _shown.append(shown)
        try:
            yield shown
        finally:
            _shown.pop()


def note(text: str) -> None:
    """A remark on stderr, above the bar where there is one."""
    (_shown[-1] if _shown else Lines()).note(text)


def is_terminal() -> bool:
    """Whether stderr is a terminal that can take back what it showed."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def printable(text: str) -> str:
    """Text without what a terminal would obey; its lines stay lines."""
    from touchstone.jsonsource import visible

    return visible(text).replace("\r", "\ufffd").replace("\t", " ")


class Lines:
    """A line for each step: for logs, pipes and continuous integration."""

    def __init__(self) -> None:
        self._total = self._done = 0

    def note(self, text: str) -> None:
        click.echo(printable(text), err=True)

    def begin(self, total: int, done: int) -> None:
        self._total, self._done = total, done

    def busy(self, text: str) -> None:
        """Said by the next step's line."""

    def step(self, line: str, *, facts: str, quiet: bool = True) -> None:
        self._done += 1
        self.note(f"{self._done}/{self._total}  {line}")


class Pace:
    """How long the rest takes, from the steps of this run alone."""

    def __init__(self, clock: Callable[[], float], left: int) -> None:
        self._clock = clock
        self._start = self._last = clock()
        self._fresh = 0
        self._left = left

    def step(self) -> None:
        self._fresh += 1
        self._left -= 1
        self._last = self._clock()

    @property
    def left_s(self) -> float | None:
        """Seconds; None before the first step."""
        if not self._fresh:
            return None
        whole = (self._last - self._start) / self._fresh * self._left
        return max(0.0, whole - (self._clock() - self._last))


class Bar:
    """A progress bar at the foot of the terminal; it is gone in the end, and only the notes stay."""

    def __init__(self, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        self._unit = unit
        self._clock = clock
        self._total = self._done = 0
        self._busy = self._facts = ""
        self._pace: Pace | None = None
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(printable(text)), soft_wrap=True)

    def begin(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._pace = Pace(self._clock, total - done)

    def busy(self, text: str) -> None:
        self._busy = text

    def step(self, line: str, *, facts: str, quiet: bool = True) -> None:
        self._done += 1
        self._facts = facts
        if self._pace is not None:
            self._pace.step()
        if not quiet:
            self.note(line)

    def _render(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows: list[RenderableType] = []
        if self._total:
            left = None if self._pace is None else self._pace.left_s
            head = Table.grid(padding=(0, 2))
            width = min(BAR_WIDTH, max(8, self._console.width - 48))
            head.add_row(
                ProgressBar(total=self._total, completed=self._done, width=width),
                Text(f"{self._done}/{self._total} {self._unit}", no_wrap=True),
                Text("" if left is None else f"{duration(left)} left", no_wrap=True),
            )
            rows.append(head)
        for text in (self._busy, self._facts):
            if text:
                rows.append(Text(one_line(text), no_wrap=True, overflow="ellipsis"))
        return Group(*rows)


def duration(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3.5 h`; unknown where it is."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def one_line(text: str) -> str:
    """Text as one printable line."""
    return " ".join(printable(text).split())


# -- summaries


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[int] = ()) -> str:
    """Rows under heads, as plain text in columns; None becomes a dash. `right`: columns set flush right.

    The last column is not padded, so that a long name at the end costs no line its neighbours' width.
    """
    cells = [[one_line("-" if cell is None else str(cell)) for cell in row] for row in (heads, *rows)]
    widths = [max(columns(row[i]) for row in cells) for i in range(len(heads))]
    lines = []
    for row in cells:
        padded = [
            cell if i == len(row) - 1 and i not in right else _padded(cell, widths[i], flush_right=i in right)
            for i, cell in enumerate(row)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _padded(text: str, width: int, *, flush_right: bool) -> str:
    blank = " " * (width - columns(text))
    return blank + text if flush_right else text + blank


def command(*words: object) -> str:
    """A command to type, quoted for the shell where it must be."""
    import shlex

    texts = [printable(str(word)) for word in words]
    return " ".join(f'"{text}"' if " " in text else text for text in texts) if os.name == "nt" else shlex.join(texts)
