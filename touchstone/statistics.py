"""Figures over numbers that were measured. Pure, without numpy: start-up and install stay small."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile (0..1) of `values`, linear between neighbours (Hyndman and Fan 1996, type 7); None if empty."""
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return None
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Sequence[float]) -> float | None:
    """The middle of the finite `values`; None if there is none."""
    return quantile(values, 0.5)
