"""The drawing of what a system prompt changes: its title says what the data say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.making import make_bundle
from touchstone.bundle import open_bundle
from touchstone.i18n import Words
from touchstone.pages.dumbbell import MODELS_SHOWN, dumbbell

EN = Words("en")


def drawn(home: Path, scores: dict[tuple[str, str], int | None], models: int = 2) -> dict[str, Any] | None:
    """The drawing of a run whose cells all have one score (None: unscored)."""
    names = [f"m{number}" for number in range(models)]
    cells = [(model, variant) for model in names for variant in ("plain", "kind")]
    bundle = make_bundle(home / "r", models=names, score=lambda i: scores.get(cells[i // 12], 3))
    return dumbbell(open_bundle(bundle).refresh(), EN)


@pytest.mark.parametrize(
    ("scores", "title"),
    [
        ({}, "The variants make no difference to the mean score"),
        ({("m0", "kind"): 5}, "kind raises the mean score"),
        ({("m0", "kind"): 1}, "kind lowers the mean score"),
        ({("m0", "kind"): 1, ("m1", "kind"): 4}, "The variants help some and harm others"),
    ],
)
def test_the_title_says_what_the_variants_do(
    tmp_path: Path, scores: dict[tuple[str, str], int | None], title: str
) -> None:
    found = drawn(tmp_path, scores)
    assert found is not None and found["title"] == title


def test_what_has_no_score_is_not_drawn(tmp_path: Path) -> None:
    assert drawn(tmp_path, {("m0", "kind"): None, ("m1", "plain"): None}) is None


def test_many_models_are_counted(tmp_path: Path) -> None:
    found = drawn(tmp_path, {}, models=MODELS_SHOWN + 3)
    assert found is not None and found["left_out"] == 3 and len(found["rows"]) == MODELS_SHOWN
