"""How far each judge is stricter or milder than the reference, as a drawing: a dot, and a line for its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from touchstone.agreement import Interval, mean_interval
from touchstone.i18n import UNKNOWN, Words
from touchstone.judge_compare import JudgeQualityRow
from touchstone.quality_md import read_pairs
from touchstone.view import BundleView

ROWS_SHOWN: Final = 12
WIDTH: Final = 440
MARGIN: Final = 30.0
ROW_HEIGHT: Final = 44
LABEL_CHARS: Final = 44


def bias_plot(
    rows: Sequence[JudgeQualityRow], bundles: Mapping[str, BundleView], name: str, words: Words
) -> dict[str, Any] | None:
    """The drawing for these judges, None where no bias is known. `name` starts its ids on the page."""
    known = [(row, row.bias) for row in rows if row.bias is not None][:ROWS_SHOWN]
    if not known:
        return None
    intervals = [_interval(bundles[row.bundle]) for row, _ in known]
    values = [abs(bias) for _, bias in known] + [abs(end) for each in intervals if each for end in each]
    # At least one point to either side, so that a small bias looks small.
    most = max(1.0, math.ceil(max(values) * 2) / 2)

    def x(value: float) -> float:
        return round(WIDTH / 2 + value / most * (WIDTH / 2 - MARGIN), 1)

    height = ROW_HEIGHT * len(known)
    return {
        "id": name,
        "width": WIDTH,
        "height": height + 26,
        "axis_height": height,
        "zero": x(0),
        "low": {"x": x(-most), "text": words.signed(-most, 1)},
        "high": {"x": x(most), "text": words.signed(most, 1)},
        "text_y": height + 18,
        "without": sum(each is None for each in intervals),
        "rows": [
            {
                "judge": row.judge_model or UNKNOWN,
                "label": _label(row.judge_model or UNKNOWN),
                "bias": words.signed(bias),
                "interval": None
                if interval is None
                else words._("%(low)s to %(high)s", low=words.signed(interval.low), high=words.signed(interval.high)),
                "x": x(bias),
                "y": index * ROW_HEIGHT + 30,
                "label_y": index * ROW_HEIGHT + 14,
                "x1": None if interval is None else x(interval.low),
                "x2": None if interval is None else x(interval.high),
            }
            for index, ((row, bias), interval) in enumerate(zip(known, intervals, strict=True))
        ],
    }


def _label(text: str) -> str:
    return text if len(text) <= LABEL_CHARS else text[: LABEL_CHARS - 1] + "…"


def _interval(bundle: BundleView) -> Interval | None:
    """Of the mean signed difference, over resampled models; None with too few of them."""
    differences: dict[str, list[int]] = {}
    for key, (local, reference) in read_pairs(bundle.quality_md or "").items():
        differences.setdefault(key.model, []).append(local - reference)
    return mean_interval(differences)
