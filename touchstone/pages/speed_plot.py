"""Quality against speed, as a drawing: a dot a cell, the higher the better, the further left the faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from touchstone.i18n import Words

DOTS_SHOWN: Final = 12
"""More names than that are not readable; the table has all cells."""
WIDTH: Final = 440
HEIGHT: Final = 250
LEFT: Final = 44.0
RIGHT: Final = 230.0
LABELS: Final = 262.0
"""Where the names start."""
TOP: Final = 14.0
BOTTOM: Final = 206.0
LABEL_HEIGHT: Final = 16.0
LABEL_CHARS: Final = 28


def speed_plot(rows: Sequence[Mapping[str, Any]], words: Words) -> dict[str, Any] | None:
    """The drawing for the rows of one ranking (`model`, `variant`, `pct` 0..100, `latency_p50` in seconds).

    None where fewer than two of them have both figures.
    """
    known = [row for row in rows if row["pct"] is not None and row["latency_p50"] is not None]
    if len(known) < 2:
        return None
    shown = known[:DOTS_SHOWN]
    most = _round_up(max(row["latency_p50"] for row in shown))
    variants = len({row["variant"] for row in shown}) > 1
    dots = [
        {
            "name": f"{row['model']} ({row['variant']})" if variants else row["model"],
            "quality": words.pct(row["pct"]),
            "latency": words.seconds(row["latency_p50"]),
            "x": round(LEFT + (RIGHT - LEFT) * row["latency_p50"] / most, 1),
            "y": round(BOTTOM - (BOTTOM - TOP) * row["pct"] / 100, 1),
        }
        for row in shown
    ]
    _label(dots)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
        "labels": LABELS,
        "dots": dots,
        "left_out": len(known) - len(shown),
        "ticks": [{"text": words.pct(pct), "y": round(BOTTOM - (BOTTOM - TOP) * pct / 100, 1)} for pct in (0, 50, 100)],
        "slowest": words.seconds(most),
    }


def _round_up(seconds: float) -> float:
    """The next figure with one digit that is not 0, for the end of the axis."""
    if seconds < 1e-6:
        # Nobody measures less, and below the smallest normal floats there are no steps.
        return 1.0
    step = 10.0 ** math.floor(math.log10(seconds))
    return next(step * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10) if step * factor >= seconds * (1 - 1e-9))


def _label(dots: list[dict[str, Any]]) -> None:
    """Names in a column of their own, in the order of the dots, each with room; a line leads to its dot."""
    ordered = sorted(dots, key=lambda each: (each["y"], -each["x"], each["name"]))
    highest = BOTTOM - LABEL_HEIGHT * (len(ordered) - 1)
    y = -math.inf
    for number, dot in enumerate(ordered):
        y = max(min(dot["y"], highest + LABEL_HEIGHT * number), y + LABEL_HEIGHT)
        name = dot["name"]
        dot["label"] = name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"
        dot["label_y"] = round(y, 1)
