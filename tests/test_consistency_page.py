"""Repeated verdicts on the pages about the judge: never mixed into the others, told with their n."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from touchstone.bundle import open_bundle
from touchstone.i18n import Words
from touchstone.pages import judge, quality
from touchstone.render import Renderer
from touchstone.site import Site
from touchstone.view import BundleView


def repeated(prompt: str, number: int, score: int | None) -> dict[str, Any]:
    return {**builders.verdict(prompt, score, rationale="Once more."), "round": number}


def bundle(folder: Path, *lines: builders.Line) -> Path:
    made = builders.bundle(
        folder,
        answers=[builders.answer(p) for p in ("p1", "p2", "p3")],
        judgements=[builders.verdict(p, 3) for p in ("p1", "p2", "p3")],
    )
    (made / "judge_quality.md").write_text("---\ntype: judge_quality\n---\n", encoding="utf-8")
    (made / "self_consistency.jsonl").write_bytes(builders.encoded(lines))
    return made


def texts(view: BundleView, lang: str = "en") -> list[str]:
    site = Site((view,))
    pages = [page for kind in (judge, quality) for page in kind.plan(site)]
    return [" ".join(re.sub("<[^>]+>", " ", Renderer().render(page, site, Words(lang))).split()) for page in pages]


def test_the_share_and_the_range_stand_on_both_pages(tmp_path: Path) -> None:
    lines = [repeated("p1", 1, 4), repeated("p1", 2, 4), repeated("p2", 1, 2), repeated("p2", 2, 5)]
    folder = bundle(tmp_path / "b", *lines, repeated("p3", 1, None), b"{broken\n")
    view = open_bundle(folder).refresh()
    assert view.judge.done == 3 and view.judge.tally.mean == 3
    assert view.problems["self_consistency.jsonl"].count == 1
    for text in texts(view):
        assert "Judged again: 1 of 2 answers (50%) got the same verdict every time" in text
        assert "on average the scores of an answer are 1.50 points apart. 1 repeat gave no score." in text
    for text in texts(view, "de"):
        assert "Sagt der Judge zweimal dasselbe?" in text


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param((), None, id="nothing repeated"),
        pytest.param((repeated("p1", 1, 4),), "Judged again, but no answer got two scores", id="one round"),
    ],
)
def test_nothing_is_claimed_where_nothing_can_be_compared(
    tmp_path: Path, lines: tuple[builders.Line, ...], says: str | None
) -> None:
    for text in texts(open_bundle(bundle(tmp_path / "b", *lines)).refresh()):
        assert ("Does the judge say the same twice?" in text) == (says is not None)
        assert says is None or says in text


def test_lines_that_come_later_are_seen(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "b", repeated("p1", 1, 4))
    state = open_bundle(folder)
    first = state.refresh()
    builders.append(folder / "self_consistency.jsonl", repeated("p1", 2, 4))
    second = state.refresh()
    assert first.revision != second.revision
    assert second.consistency is not None and second.consistency.share_identical == 1
