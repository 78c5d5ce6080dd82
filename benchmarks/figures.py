"""A figure, its target, and whether it is met; as a table for people and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Unit = Literal["s", "ms", "×", "%", "MB", "kB", "B", "/s", ""]
_DIGITS: Final[dict[Unit, int]] = {"s": 2, "ms": 1, "×": 2, "%": 1, "MB": 1, "kB": 1, "B": 0, "/s": 0, "": 0}


@dataclass(frozen=True)
class Figure:
    """One measured number. `value` None: it could not be measured, and `note` says why."""

    case: str
    name: str
    value: float | None
    unit: Unit
    target: float | None = None
    least: bool = False
    """The target is the least that is wanted; else it is the most that is allowed."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None where there is no target or no value."""
        if self.value is None or self.target is None:
            return None
        return self.value >= self.target if self.least else self.value <= self.target

    @property
    def verdict(self) -> str:
        """`met`, or by how much of the target it is missed."""
        if self.met is None or self.value is None or self.target is None:
            return "" if self.value is not None else "not measured"
        if self.met:
            return "met"
        return f"missed by {abs(self.value - self.target) / self.target:.0%}" if self.target else "missed"

    @property
    def wanted(self) -> str:
        if self.target is None:
            return ""
        return f"{'≥' if self.least else '≤'} {shown(self.target, self.unit)}"


def shown(value: float | None, unit: Unit) -> str:
    """`1.23 s`, `17 %`; a dash for nothing."""
    if value is None:
        return "–"
    text = f"{value:,.{_DIGITS[unit]}f}"
    return f"{text} {unit}" if unit else text


def table(figures: Iterable[Figure]) -> str:
    """A Markdown table, one case after the other."""
    head = ["case", "figure", "value", "target", "", "note"]
    rows = [
        [one.case, one.name, shown(one.value, one.unit), one.wanted, one.verdict, one.note.replace("|", "/")]
        for one in figures
    ]
    return _aligned([head, *rows])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for index, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("| " + " | ".join([*cells, row[-1]]) + " |")
        if index == 0:
            lines.append("|" + "|".join("-" * (width + 2) for width in widths) + "|---|")
    return "\n".join(lines) + "\n"


def as_json(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """Each figure with its verdict."""
    return [{**asdict(one), "met": one.met} for one in figures]
