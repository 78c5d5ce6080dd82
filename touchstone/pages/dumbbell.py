"""What a system prompt changes, as a drawing: for each model the mean score of its first variant and of the others."""

from __future__ import annotations

from typing import Any, Final

from touchstone.i18n import Words
from touchstone.judge_events import Tally
from touchstone.view import BundleView

MODELS_SHOWN: Final = 12
WIDTH: Final = 440
MARGIN: Final = 8.0
ROW_HEIGHT: Final = 44
LABEL_CHARS: Final = 40


def dumbbell(bundle: BundleView, words: Words) -> dict[str, Any] | None:
    """The drawing; None where no model has scores under two variants."""
    means = _means(bundle)
    models = {model: each for model, each in means.items() if len(each) > 1}
    if not models:
        return None
    shown = dict(list(models.items())[:MODELS_SHOWN])
    return {
        "title": _finding(models, words),
        "width": WIDTH,
        "height": ROW_HEIGHT * len(shown) + 22,
        "axis": ROW_HEIGHT * len(shown) + 4,
        "steps": [{"x": _x(step), "text": str(step)} for step in range(1, 6)],
        "left_out": len(models) - len(shown),
        "rows": [_row(index, model, each, words) for index, (model, each) in enumerate(shown.items())],
    }


def _means(bundle: BundleView) -> dict[str, dict[str, float]]:
    """Model to variant to mean score, variants in the order of the pack; what has no score is left out."""
    order = [] if bundle.pack is None else [variant.id for variant in bundle.pack.variants]
    cells: dict[str, dict[str, Tally]] = {}
    for number, cell in enumerate(bundle.keys.cells):
        cells.setdefault(cell.model, {})[cell.variant] = bundle.judge.cell_tally(number)
    means: dict[str, dict[str, float]] = {}
    for model, tallies in cells.items():
        names = [name for name in order if name in tallies] + sorted(name for name in tallies if name not in order)
        means[model] = {name: mean for name in names if (mean := tallies[name].mean) is not None}
    return means


def _x(score: float) -> float:
    return round(MARGIN + (score - 1) / 4 * (WIDTH - 2 * MARGIN), 1)


def _row(index: int, model: str, means: dict[str, float], words: Words) -> dict[str, Any]:
    (first, base), *others = means.items()
    y = index * ROW_HEIGHT + 30
    return {
        "label": model if len(model) <= LABEL_CHARS else model[: LABEL_CHARS - 1] + "…",
        "label_y": y - 16,
        "y": y,
        "base": _x(base),
        "others": [_x(mean) for _, mean in others],
        "from": _x(min(means.values())),
        "to": _x(max(means.values())),
        "text": " · ".join(f"{name} {words.number(mean, 2)}" for name, mean in ((first, base), *others)),
    }


def _finding(models: dict[str, dict[str, float]], words: Words) -> str:
    """What the other variants do to the mean, as far as it shows in two decimals."""
    changes = {
        (variant, round(mean - next(iter(means.values())), 2))
        for means in models.values()
        for variant, mean in list(means.items())[1:]
    }
    up, down = (any(sign * change > 0 for _, change in changes) for sign in (1, -1))
    variants = {variant for variant, _ in changes}
    name = next(iter(variants)) if len(variants) == 1 else None
    if not up and not down:
        return words._("The variants make no difference to the mean score")
    if up and down:
        return words._("The variants help some and harm others")
    if name is None:
        return words._("The variants raise the mean score") if up else words._("The variants lower the mean score")
    if up:
        return words._("%(variant)s raises the mean score", variant=name)
    return words._("%(variant)s lowers the mean score", variant=name)
