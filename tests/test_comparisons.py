"""Models compared over runs, and the eval monitor: rankings with ties, speeds once an eval, how a run ended."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.making import PACK, make_bundle, write_lines
from tests.pages import Html
from touchstone.build import build
from touchstone.bundle import BundleState, open_bundle
from touchstone.events import ModelSpeed
from touchstone.i18n import Words
from touchstone.options import Options
from touchstone.pages.eval import CHART_MODELS, latency_chart, rate_chart
from touchstone.pages.lineage import eval_names, one_per_eval
from touchstone.pages.ranking import agreement, ranking, ranking_words
from touchstone.pages.speed_plot import DOTS_SHOWN, speed_plot
from touchstone.store.bundles import find_bundles
from touchstone.view import BundleView

WORDS = Words("en")


def page_of(home: Path, name: str) -> Html:
    build(Options(runs=home / "runs", out=home / "public", state_home=home))
    return Html(home / "public" / name)


def view(folder: Path) -> BundleView:
    return open_bundle(folder).refresh()


def change(path: Path, **fields: Any) -> None:
    """Set fields of a bundle.yaml."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**document, **fields}), encoding="utf-8")


def rewrite(bundle: Path, edit: Callable[[int, dict[str, Any]], None]) -> None:
    """Change the lines of answers.jsonl."""
    path = bundle / "answers.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, line in enumerate(lines):
        edit(number, line)
    write_lines(path, lines)


# -- which runs share their answers


@pytest.mark.parametrize(
    ("parents", "roots"),
    [
        pytest.param({"a": None, "b": None}, {"a": "a", "b": "b"}, id="runs of their own"),
        pytest.param({"a": None, "b": "a", "c": "b"}, {"a": "a", "b": "a", "c": "a"}, id="followed to the end"),
        pytest.param({"b": "gone", "c": "gone"}, {"b": "gone", "c": "gone"}, id="siblings of one that is gone"),
        pytest.param({"a": "a"}, {"a": "a"}, id="derived from itself"),
        pytest.param({"a": "b", "b": "a", "c": "a"}, {"a": "a", "b": "a", "c": "a"}, id="a circle"),
        pytest.param({"x/a": None, "y/a": None, "y/b": "a"}, {"x/a": "x/a", "y/a": "y/a", "y/b": "y/a"}, id="siblings"),
        pytest.param({"x/a": None, "b": "a"}, {"x/a": "x/a", "b": "x/a"}, id="moved away from each other"),
    ],
)
def test_eval_names(tmp_path: Path, parents: dict[str, str | None], roots: dict[str, str]) -> None:
    for name, parent in parents.items():
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "bundle.yaml").write_text(yaml.safe_dump({"derived_from": parent}))
    views = [BundleState(found).refresh() for found in find_bundles(tmp_path / "runs")]
    assert eval_names(views) == roots
    assert sorted(name for name, _ in one_per_eval(views, roots)) == sorted(set(roots.values()))


# -- rankings


def by_model(scores: dict[str, int], answers: int = 24) -> Callable[[int], int]:
    """Scores for make_bundle: each model has that many answers, in the order of the mapping."""
    values = list(scores.values())
    return lambda i: values[i // answers]


def test_a_ranking_by_mean_shares_places_and_says_so(tmp_path: Path) -> None:
    scores = {"a": 3, "b": 5, "c": 3, "d": 3}
    pack = {**PACK, "variants": PACK["variants"][:1]}
    score = by_model(scores, answers=12)
    bundle = make_bundle(tmp_path / "r", models=scores, pack=pack, reports=False, score=score)
    ranked = ranking([view(bundle)])
    places = {place.cell.model: (place.number, place.tied) for place in ranked.places}
    # Answer 4 has a red flag and belongs to a: knocked out, so behind everything else.
    assert places == {"b": (1, False), "c": (2, True), "d": (2, True), "a": (4, False)}
    assert ranking_words(ranked, WORDS) == (
        "By mean score, because there is no quality yet: b, then c, d (tied), then a."
    )


def test_equal_qualities_are_ties_and_a_knock_out_comes_last(tmp_path: Path) -> None:
    ranked = ranking([view(make_bundle(tmp_path / "r"))])
    shown = [(place.number, place.tied, place.cell.model, place.cell.variant) for place in ranked.places]
    assert shown == [
        (1, True, "m-one", "kind"),
        (1, True, "m-two", "kind"),
        (1, True, "m-two", "plain"),
        (4, False, "m-one", "plain"),
    ]
    assert ranking_words(ranked, WORDS) == (
        "By recommendation and quality: m-one (kind), m-two (kind), m-two (plain) (tied), then m-one (plain)."
    )


def test_without_a_score_there_is_no_place(tmp_path: Path) -> None:
    ranked = ranking([view(make_bundle(tmp_path / "r", score=lambda i: None, reports=False))])
    assert {place.number for place in ranked.places} == {None}
    assert ranking_words(ranked, WORDS) == "There is no score to rank by yet."


def test_judges_agree_only_about_the_same_answers(tmp_path: Path) -> None:
    one = view(make_bundle(tmp_path / "one", reports=False, score=by_model({"m-one": 2, "m-two": 5})))
    two = view(make_bundle(tmp_path / "two", reports=False, score=by_model({"m-one": 1, "m-two": 4})))
    odd = view(make_bundle(tmp_path / "odd", reports=False, score=by_model({"m-one": 5, "m-two": 1})))
    rankings = [ranking([each]) for each in (one, two, odd)]
    same = {"one": "one", "two": "one", "odd": "one"}
    apart = {"one": "one", "two": "one", "odd": "odd"}
    names = "m-two (kind), m-two (plain) (tied)"
    assert agreement(rankings[:2], same, WORDS) == f"The 2 judges of the same answers put {names} first."
    assert agreement(rankings, apart, WORDS) == f"The 2 judges of the same answers put {names} first."
    assert "do not agree on the first place" in agreement(rankings, same, WORDS)
    assert agreement(rankings[:1], same, WORDS) == ""


def test_a_first_place_among_the_refused_is_no_praise(tmp_path: Path) -> None:
    pack = {**PACK, "thresholds": {"recommend": 99, "limited": 98}}
    views = [view(make_bundle(tmp_path / name, pack=pack)) for name in ("one", "two")]
    rankings = [ranking([each]) for each in views]
    same = {"one": "one", "two": "one"}
    assert ranking_words(rankings[0], WORDS).startswith("None of them is recommended; by quality: ")
    assert agreement(rankings, same, WORDS) == "The 2 judges of the same answers recommend none of them."


def test_compare_shows_a_ranking_for_each_judge_and_each_eval_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_bundle(runs / "first", judge="judge-a")
    again = make_bundle(runs / "second", judge="judge-b")
    change(again / "bundle.yaml", derived_from="first")
    make_bundle(runs / "unjudged", models=["m-three"], judged=0, reports=False, events=False)
    page = page_of(tmp_path, "compare/index.html")
    captions = [caption.text for caption in page.all("caption")]
    assert sorted(map(str, captions)) == ["Judged by judge-a", "Judged by judge-b", "Speed and machines"]
    speeds = page.all("table")[2]
    models = sorted(code.text or "" for code in speeds.iter("code"))
    assert models == ["m-one", "m-three", "m-two"]
    assert "a processor · Linux, 16.0 GB memory" in page.text
    assert any(link.endswith("compare-judges/index.html") for link in page.links())


def test_compare_without_runs_and_without_packs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert "Nothing to compare yet" in page_of(tmp_path, "compare/index.html").text
    bundle = make_bundle(tmp_path / "runs" / "r")
    (bundle / "pack.yaml").unlink()
    page = page_of(tmp_path, "compare/index.html")
    assert "Pack probe" in page.text and "By mean score, because there is no quality yet" in page.text


def test_long_rankings_are_folded(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r", models=[f"m{n:02}" for n in range(20)])
    page = page_of(tmp_path, "compare/index.html")
    (summary,) = page.all("summary")
    assert summary.text == "15 more rows"


# -- the eval monitor


START = {"event": "eval_start", "ts": 900.0, "total": 60}
DONE = {"event": "eval_done", "ts": 2000.0, "total": 60}


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        pytest.param([], "All 48 answers are in.", id="no events: counted from the pack"),
        pytest.param([{**START, "total": 48}, {**DONE, "total": 48}], "The run finished.", id="finished"),
        pytest.param([START, DONE], "48 of 60 answers are in. The run stopped early", id="stopped early"),
        pytest.param([START], "No end is recorded; the last answer came at 1970-01-01 00:17 UTC.", id="no end"),
        pytest.param([START, DONE, START], "No end is recorded", id="resumed and not ended"),
    ],
)
def test_how_a_run_ended(tmp_path: Path, events: list[dict[str, Any]], sentence: str) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    if events:
        write_lines(bundle / "events.jsonl", events)
    assert sentence in page_of(tmp_path, "runs/r/eval/index.html").text


def test_a_run_without_events_that_is_not_whole(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    change(bundle / "bundle.yaml", repeats=2)
    text = page_of(tmp_path, "runs/r/eval/index.html").text
    assert "48 of 96 answers are in. This run recorded no events" in text


def test_failures_are_counted_listed_and_linked(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")

    def edit(number: int, line: dict[str, Any]) -> None:
        if number < 25:
            line.update(status="error", answer="", error=f"timeout {number} <script>")
        elif number < 27:
            line.update(status="truncated")
        elif number == 30:
            line.update(status="empty", answer="")

    rewrite(bundle, edit)
    page = page_of(tmp_path, "runs/r/eval/index.html")
    assert "25 questions failed" in page.text and "5 more are on the answer pages." in page.text
    facts = {dt.text: "".join(dd.itertext()) for dt, dd in zip(page.all("dt"), page.all("dd"), strict=True)}
    assert (facts["Answers"], facts["Cut off"], facts["Empty"], facts["Failed"]) == ("48/48", "2", "1", "25")
    assert "timeout 0 <script>" in page.text and "timeout 20" not in page.text
    links = [link for link in page.links() if "answers-1.html#a-" in link]
    assert len(links) == 20


def test_machine_and_parameters_are_told(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    change(bundle / "bundle.yaml", params={"temperature": 0.2, "seed": None, "extra": {"top_k": 3}})
    text = page_of(tmp_path, "runs/r/eval/index.html").text
    assert "a processor" in text and "temperature0.2" in text and "seed" not in text and "{'top_k': 3}" in text


def speed(model: str, p50: float | None, p95: float | None = None) -> ModelSpeed:
    return ModelSpeed(model, 1, 1, p50, p95, None, None, None, None, None, 0, 0, 0)


@pytest.mark.parametrize(
    ("speeds", "title"),
    [
        pytest.param([speed("a", 2.0, 3.0)], "a takes 2.0\u00a0s for half of its answers", id="one model"),
        pytest.param([speed("a", 2.0), speed("b", 1.0)], "b answers fastest: half within 1.0\u00a0s", id="a fastest"),
        pytest.param([speed("a", 1.01), speed("b", 1.02)], "All models are equally fast", id="equal as shown"),
        pytest.param(
            [speed("a", 1.0), speed("b", 1.0), speed("c", 3.0)],
            "2 models are equally fast, ahead of the others",
            id="a tie in front",
        ),
        pytest.param([speed("a", 0.0), speed("b", None)], "a takes 0\u00a0ms for half of its answers", id="no time"),
    ],
)
def test_the_chart_says_what_it_shows(speeds: list[ModelSpeed], title: str) -> None:
    drawn = latency_chart(speeds, WORDS)
    assert drawn is not None and drawn["title"] == title


def test_a_chart_of_many_models_stays_readable() -> None:
    drawn = latency_chart([speed(f"model {n} " + "漢" * 80, float(n + 1), n + 2.0) for n in range(40)], WORDS)
    assert drawn is not None
    assert len(drawn["bars"]) == CHART_MODELS and f"{40 - CHART_MODELS} slower models" in drawn["sub"]
    for bar in drawn["bars"]:
        assert 0 <= bar["width"] <= bar["width_pale"] <= drawn["width"]
        assert sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in bar["label"]) <= 90


def test_nothing_measured_is_no_chart() -> None:
    assert latency_chart([speed("a", None)], WORDS) is None
    assert rate_chart([speed("a", 1.0)], WORDS) is None


@pytest.mark.parametrize(
    ("rates", "title"),
    [
        ([7.0], "m0 writes 7.0 tokens per second"),
        ([7.0, 30.5, None], "m1 writes fastest: 30.5 tokens per second"),
        ([7.01, 7.04], "All models write equally fast"),
        ([9.0, 9.0, 7.0], "2 models write equally fast, ahead of the others"),
    ],
    ids=["one", "a fastest", "equal as shown", "a tie in front"],
)
def test_the_chart_of_rates_says_what_it_shows(rates: list[float | None], title: str) -> None:
    drawn = rate_chart([replace(speed(f"m{n}", 1.0), gen_tps=rate) for n, rate in enumerate(rates)], WORDS)
    assert drawn is not None and drawn["title"] == title
    assert drawn["bars"][0]["width"] >= drawn["bars"][-1]["width"] > 0


# -- quality and speed


def rated(model: str, pct: float | None, latency: float | None, variant: str = "plain") -> dict[str, Any]:
    return {"model": model, "variant": variant, "pct": pct, "latency_p50": latency}


def test_the_plot_needs_two_cells_with_both_figures() -> None:
    assert speed_plot([rated("a", 50.0, 1.0), rated("b", None, 2.0), rated("c", 40.0, None)], WORDS) is None
    plot = speed_plot([rated("a", 80.0, 1.0), rated("b", 20.0, 4.6)], WORDS)
    assert plot is not None and plot["slowest"] == "5.0\u00a0s"
    (better, worse) = plot["dots"]
    assert better["y"] < worse["y"] and better["x"] < worse["x"]
    assert (better["name"], better["quality"], better["latency"]) == ("a", "80%", "1.0\u00a0s")


@example([(20.0, 0.0), (20.0, 5e-324)])
@given(st.lists(st.tuples(st.floats(20, 100), st.floats(0, 1e7)), min_size=2, max_size=30))
def test_every_name_in_the_plot_has_room(cells: list[tuple[float, float]]) -> None:
    plot = speed_plot([rated(f"model {n} {'x' * n}", *cell) for n, cell in enumerate(cells)], WORDS)
    assert plot is not None and plot["left_out"] == max(0, len(cells) - DOTS_SHOWN)
    heights = sorted(dot["label_y"] for dot in plot["dots"])
    assert all(below - above >= 15.8 for above, below in pairwise(heights))
    assert all(plot["left"] <= dot["x"] <= plot["right"] for dot in plot["dots"])
    assert all(plot["top"] <= dot["y"] <= plot["bottom"] and len(dot["label"]) <= 28 for dot in plot["dots"])
    assert heights[-1] <= plot["height"]


def test_compare_draws_quality_against_latency(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r")
    page = page_of(tmp_path, "compare/index.html")
    assert page.source.count("Quality and latency of each cell") == 1
    assert page.source.count("m-one (plain): 80%, 1.5") == 1
