"""The comparison of judges: frontmatter of any bytes, rows, groups, winners; and the page made of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.making import PACK, make_bundle, write_lines
from tests.pages import Html, dead_links, html_pages
from touchstone.build import build
from touchstone.bundle import open_bundle
from touchstone.i18n import Words
from touchstone.judge_compare import (
    FIGURES,
    HIGHEST_WINS,
    JudgeQualityRow,
    group_by_pack,
    judge_quality_rows,
    parse_frontmatter,
    split_frontmatter,
    trusted,
)
from touchstone.judge_pairs import compare
from touchstone.judge_words import figures, lead
from touchstone.meta_session import ingest
from touchstone.options import Options
from touchstone.pages import compare_judges
from touchstone.pages import quality as quality_page
from touchstone.quality_md import PairKey
from touchstone.render import Renderer
from touchstone.site import Site
from touchstone.view import BundleView

BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("---\na: 1\nb: text\n---\nbody\n", {"a": 1, "b": "text"}, id="a block"),
        pytest.param("---\r\na: 1\r\n---\r\nbody", {"a": 1}, id="lines of Windows"),
        pytest.param("\ufeff---\na: 1\n---\n", {"a": 1}, id="a byte order mark"),
        pytest.param("---\na: 1\n---", {"a": 1}, id="no body"),
        pytest.param("---\n{}\n---\n", {}, id="an empty mapping"),
        pytest.param("---\n1: a\n---\n", {"1": "a"}, id="keys become text"),
        pytest.param("", None, id="nothing"),
        pytest.param("# Title\n", None, id="no block"),
        pytest.param("text\n---\na: 1\n---\n", None, id="a block that does not lead"),
        pytest.param("---\na: 1\n", None, id="a block that does not end"),
        pytest.param("---\n---\n", None, id="an empty block"),
        pytest.param("---\n- a\n---\n", None, id="a list"),
        pytest.param("---\ntext\n---\n", None, id="a text"),
        pytest.param("---\na: [1\n---\n", None, id="broken YAML"),
        pytest.param("---\na: 1\na: 2\n---\n", None, id="a key given twice"),
        pytest.param("---\na: !!python/object:os.system x\n---\n", None, id="a foreign tag"),
        pytest.param("---\na: !!timestamp x\n---\n", None, id="a tag that its value does not fit"),
        pytest.param("---\na: \ud800\n---\n", None, id="a lone surrogate"),
        pytest.param(f"---\n{BOMB}---\n", None, id="an alias bomb"),
        pytest.param(f"---\na: {'[' * 10_000}\n---\n", None, id="deep nesting"),
        pytest.param(f"---\na: {'9' * 10_000}\n---\n", None, id="a number of ten thousand digits"),
    ],
)
def test_parse_frontmatter(text: str, fields: dict[str, Any] | None) -> None:
    assert parse_frontmatter(text) == fields


yamlish = st.text(alphabet="-:[]{}&*!?|>#%@`'\"\\ \t\n\r0123456789.eE_+~<=abcxnyTZ\x00\x85\ufeff\ud800")


@given(st.one_of(st.text(), yamlish, st.binary().map(lambda data: data.decode("utf-8", "replace"))))
def test_no_text_makes_parse_frontmatter_raise(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nbody", f"---\na: {text}\n---\n"):
        fields, body = split_frontmatter(whole)
        assert fields is None or all(isinstance(key, str) for key in fields)
        assert fields is not None or body == whole


# -- rows


def quality(folder: Path, body: str = "# Judge\n", **fields: Any) -> Path:
    """A bundle whose only file is a judge_quality.md with these fields."""
    folder.mkdir(parents=True, exist_ok=True)
    head = yaml.safe_dump({"type": "judge_quality", "bundle": folder.name, **fields}, allow_unicode=True)
    (folder / "judge_quality.md").write_text(f"---\n{head}---\n{body}", encoding="utf-8")
    return folder


def rows_of(*folders: Path) -> list[JudgeQualityRow]:
    return judge_quality_rows(open_bundle(folder).refresh() for folder in folders)


FIVE: dict[str, Any] = {
    "mean_abs_delta": 0.44,
    "names_improvement_rate": 0.5,
    "cites_evidence_rate": 0.75,
    "justifies_level_rate": 1,
    "catches_safety_rate": 0,
}


def test_rows_come_from_every_readable_file_and_only_from_those(tmp_path: Path) -> None:
    good = quality(tmp_path / "b", pack="p2", judge_model="judge-b", **FIVE)
    other = quality(tmp_path / "c", pack="p1", judge_model="judge-c", mean_abs_delta=1.5)
    broken = quality(tmp_path / "broken")
    (broken / "judge_quality.md").write_bytes(b"---\ntype: [judge\n---\n\xff\xfe\x00")
    foreign = quality(tmp_path / "foreign", type="note", pack="p1")
    without = make_bundle(tmp_path / "without")

    rows = rows_of(good, broken, foreign, without, other)

    assert [(row.pack, row.bundle, row.judge_model) for row in rows] == [("p1", "c", "judge-c"), ("p2", "b", "judge-b")]
    assert {name: getattr(rows[1], name) for name in FIVE} == FIVE
    assert {name: getattr(rows[0], name) for name in FIVE} == {**dict.fromkeys(FIVE), "mean_abs_delta": 1.5}
    assert rows[1].key == "b|judge-b"


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        pytest.param("mean_abs_delta", 4, 4.0, id="the largest distance"),
        pytest.param("mean_abs_delta", 4.01, None, id="no distance on a scale of 1 to 5"),
        pytest.param("mean_abs_delta", -0.1, None, id="a negative distance"),
        pytest.param("mean_abs_delta", math.nan, None, id="not a number"),
        pytest.param("mean_abs_delta", math.inf, None, id="infinite"),
        pytest.param("mean_abs_delta", "0.4", None, id="a text"),
        pytest.param("mean_abs_delta", True, None, id="a truth value"),
        pytest.param("mean_abs_delta", [0.4], None, id="a list"),
        pytest.param("cites_evidence_rate", 75, None, id="per cent instead of a fraction"),
        pytest.param("cites_evidence_rate", 1, 1.0, id="all"),
        pytest.param("bias", -0.25, -0.25, id="a stricter judge"),
        pytest.param("skill", -3.5, -3.5, id="worse than the best constant"),
        pytest.param("pairs", 80, 80, id="a count"),
        pytest.param("pairs", 80.0, None, id="a count is whole"),
        pytest.param("pairs", True, None, id="a count is no truth value"),
        pytest.param("pairs", int("9" * 400), None, id="a count of four hundred digits"),
        pytest.param("constant_score", 6, None, id="no score"),
        pytest.param("pack", "probe", "probe", id="a name"),
        pytest.param("pack", 7, None, id="a name is text"),
        pytest.param("pack", "  ", None, id="a name is not empty"),
        pytest.param("reference", "x" * 501, None, id="a name is not that long"),
    ],
)
def test_wrong_figures_read_as_unknown(tmp_path: Path, name: str, value: Any, read: Any) -> None:
    (row,) = rows_of(quality(tmp_path / "b", judge_model="j", **{name: value}))
    assert getattr(row, name) == read
    assert type(getattr(row, name)) is type(read)


def test_minus_zero_is_zero(tmp_path: Path) -> None:
    (row,) = rows_of(quality(tmp_path / "b", bias=-0.0))
    assert str(row.bias) == "0.0"


def test_the_judge_is_known_from_the_verdicts_where_the_file_does_not_say(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "b", judge="judge-x")
    (row,) = rows_of(quality(bundle))
    assert row.judge_model == "judge-x"


@given(st.dictionaries(st.sampled_from(["type", "pack", "judge_model", "created", *FIGURES]), st.text()))
def test_no_frontmatter_makes_a_row_raise(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, str]) -> None:
    bundle = tmp_path_factory.mktemp("b")
    lines = "\n".join(f"{name}: {value}" for name, value in fields.items())
    (bundle / "judge_quality.md").write_text(
        f"---\ntype: judge_quality\n{lines}\n---\n", encoding="utf-8", errors="surrogatepass"
    )
    rows_of(bundle)


# -- groups and winners


def row(bundle: str, judge: str = "j", pack: str | None = "p", **figures: Any) -> JudgeQualityRow:
    return replace(JudgeQualityRow(bundle, judge), pack=pack, **figures)


def test_groups_are_packs_versions_and_references(tmp_path: Path) -> None:
    rows = [
        row("a", pack="q"),
        row("b", pack=None, pack_sha="1"),
        row("c", pack_sha="1", reference="r1"),
        row("d", pack_sha="1", reference="r2"),
        row("e", pack_sha="2", reference="r1"),
        row("f", pack_sha="1", reference="r1"),
        row("g", pack=None, reference="r1"),
    ]
    groups = group_by_pack(rows)
    assert [(group.pack, group.pack_sha, group.reference) for group in groups] == [
        ("p", "1", "r1"),
        ("p", "1", "r2"),
        ("p", "2", "r1"),
        ("q", None, None),
        (None, None, None),
    ]
    assert [[each.bundle for each in group.rows] for group in groups] == [["c", "f"], ["d"], ["e"], ["a"], ["b", "g"]]
    assert group_by_pack(reversed(rows)) == groups


RATE = HIGHEST_WINS[0]


@pytest.mark.parametrize(
    ("metric", "values", "winner"),
    [
        pytest.param("mean_abs_delta", [0.5, 0.3, 0.9], 1, id="the shortest distance wins"),
        pytest.param(RATE, [0.5, 0.3, 0.9], 2, id="the highest rate wins"),
        pytest.param("mean_abs_delta", [0.0, 0.3], 0, id="zero is a value"),
        pytest.param(RATE, [0.0, None, 0.3], 2, id="the unknown is left out"),
        pytest.param(RATE, [0.9, 0.9, 0.3], None, id="a tie wins nothing"),
        pytest.param(RATE, [0.3, 0.3, 0.9], 2, id="a tie behind the winner does not matter"),
        pytest.param(RATE, [None, None], None, id="nothing known, nothing won"),
        pytest.param("mean_abs_delta", [0.1], None, id="alone, nothing is won"),
        pytest.param("mean_abs_delta", [0.1, None], None, id="beside the unknown, nothing is won"),
        pytest.param("mean_abs_delta", [0.304, 0.301, 0.9], None, id="what looks the same is a tie"),
    ],
)
def test_winners(metric: str, values: list[float | None], winner: int | None) -> None:
    figures: list[dict[str, Any]] = [{metric: value} for value in values]
    rows = [row(f"b{i}", **each) for i, each in enumerate(figures)]
    (group,) = group_by_pack(rows)
    assert group.winners[metric] == (None if winner is None else rows[winner].key)
    assert {name: key for name, key in group.winners.items() if name != metric and key} == {}


def test_winners_are_found_within_a_group_only() -> None:
    groups = group_by_pack(
        [row("a", mean_abs_delta=0.9), row("b", mean_abs_delta=0.8), row("c", pack="q", mean_abs_delta=0.1)]
    )
    assert [group.winners["mean_abs_delta"] for group in groups] == ["b|j", None]


def test_nobody_wins_where_the_pack_is_unknown() -> None:
    (group,) = group_by_pack([row("a", pack=None, mean_abs_delta=0.1), row("b", pack=None, mean_abs_delta=0.2)])
    assert set(group.winners.values()) == {None}


# -- the page


def page_of(home: Path, name: str = "compare-judges/index.html") -> Html:
    build(Options(runs=home / "runs", out=home / "public", state_home=home))
    assert dead_links(home / "public", html_pages(home / "public")) == []
    return Html(home / "public" / name)


def test_without_a_reference_the_page_says_what_would_be_here(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    page = page_of(tmp_path)
    assert "No judge has been checked against a reference yet." in page.text
    assert "judge_quality.md" in page.text


def test_the_page_names_winners_in_words_and_keeps_old_files_visible(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_bundle(runs / "a")
    quality(runs / "a", pack="probe", judge_model="judge-a", reference="strong", **FIVE)
    quality(runs / "b", pack="probe", judge_model="judge-b", reference="strong", **{**FIVE, "mean_abs_delta": 0.2})
    quality(runs / "old", judge_model="judge-old", mean_abs_delta=0.1)
    (runs / "broken").mkdir()
    (runs / "broken" / "judge_quality.md").write_bytes(b"---\ntype: [\xff\n---\n")

    page = page_of(tmp_path)

    winners = [" ".join("".join(cell.itertext()).split()) for cell in page.all("b")]
    assert winners == ["best: 0.20"]
    assert "These files are too old to say whether a judge can be trusted" in page.text
    assert "Pack unknown: made by an older version, ingest again" in page.text
    assert "judge-old" in page.text and "50%" in page.text and "—" in page.text
    assert "These files do not name their reference." not in page.text


def test_a_constant_judge_is_called_one(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    constant: dict[str, Any] = {"constant_score": 5, "constant_mean_abs_delta": 0.93, "skill": 0.0}
    quality(runs / "a", pack="p", judge_model="always-5", mean_abs_delta=0.93, **constant)
    quality(runs / "b", pack="p", judge_model="real", mean_abs_delta=1.1)
    page = page_of(tmp_path)
    assert "no better than always answering 5" in page.text
    assert "always 5: 0.93" in page.text
    text = Html(tmp_path / "public" / "runs" / "a" / "judge-quality" / "index.html").text
    assert "that is no better than always answering 5." in text


def test_long_groups_are_paged_and_keep_one_winner(tmp_path: Path) -> None:
    folders = [
        quality(tmp_path / f"r{n:03}", pack="p", judge_model=f"judge-{n}", mean_abs_delta=1 + n / 100)
        for n in range(130)
    ]
    site = Site(tuple(open_bundle(folder).refresh() for folder in folders))
    first, second = (Renderer().render(page, site, Words("en")) for page in compare_judges.plan(site))
    assert (first.count("<tr>"), second.count("<tr>")) == (2 * 101, 2 * 31)
    assert (first.count("best:"), second.count("best:")) == (1, 0)
    assert 'href="index-2.html" rel="next"' in first and 'href="index.html" rel="prev"' in second


def test_judges_of_the_same_answers_stand_side_by_side(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_bundle(runs / "first", judge="strict", score=lambda i: 2)
    again = make_bundle(runs / "second", judge="mild", score=lambda i: 4)
    with (again / "bundle.yaml").open("a", encoding="utf-8") as file:
        file.write("derived_from: first\n")
    make_bundle(runs / "elsewhere", judge="other", score=lambda i: 5)
    page = page_of(tmp_path)
    assert "mild is the mildest judge with 4.00 on average, strict the strictest with 2.00." in page.text
    assert "elsewhere" not in page.text


# -- the page of one judge_quality.md


def test_the_quality_page_shows_figures_body_and_age(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    body = "# Judge quality\n\n## Headline\n\nSome **text** and <script>no</script>\n"
    quality(bundle, body, pack="probe", judge_model="judge-a", inputs_sha="older", pairs=80, pairs_expected=96, **FIVE)
    page = page_of(tmp_path, "runs/r/judge-quality/index.html")
    assert "Over 80 pairs the judge is 0.44 points away from the reference on average (no kappa" in page.text
    assert "older than the judging" in page.text
    assert "<script>no</script>" in page.text and "inputs_sha" not in page.text
    assert len(page.all("h1")) == 1


def test_a_quality_file_of_this_judging_is_not_called_old(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    quality(bundle, judge_model="judge-a", inputs_sha=open_bundle(bundle).refresh().inputs_sha)
    assert "older than the judging" not in page_of(tmp_path, "runs/r/judge-quality/index.html").text


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00\xff\xfe" * 1000, id="no text at all"),
        pytest.param(b"---\ntype: note\n---\nA note.\n", id="another type"),
        pytest.param(b"---\ntype: judge_quality\npack: [\n---\n", id="broken YAML"),
        pytest.param(b'---\ntype: judge_quality\npack: "\\u0007"\n---\n> > ' + b"> " * 5000, id="deep quotes"),
    ],
)
def test_any_bytes_named_judge_quality_md_are_a_page(tmp_path: Path, data: bytes) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    (bundle / "judge_quality.md").write_bytes(data)
    page = page_of(tmp_path, "runs/r/judge-quality/index.html")
    readable = b"judge_quality" in data and b"[" not in data
    assert ("shown as it stands" in page.text) != readable


# -- judges that were checked, end to end

MODELS = tuple(f"m{n:02}" for n in range(10))
CHECKED_PACK: dict[str, Any] = {
    **PACK,
    "dimensions": [*PACK["dimensions"], {"id": "clear", "name": "Clear", "weight": 1}],
    "prompts": PACK["prompts"][:1],
}
IDS = [dimension["id"] for dimension in CHECKED_PACK["dimensions"]]
Rate = Callable[[int], int]
"""From the number of a pair to a score."""


def truth(i: int) -> int:
    return (i * 7 + i // 5) % 5 + 1


def checked(
    folder: Path, judge: str, local: Rate, models: Sequence[str] = MODELS, reference: str = "Strong, 2026-12-01"
) -> Path:
    """A run of 2 x 3 pairs a model, judged by `local`, checked against `truth`, and ingested."""
    make_bundle(folder, models=models, pack=CHECKED_PACK, judge=judge)
    cells = [(model, variant["id"]) for model in models for variant in CHECKED_PACK["variants"]]

    def scores(rate: Rate, at: int) -> dict[str, int]:
        return {name: rate(at * len(IDS) + i) for i, name in enumerate(IDS)}

    write_lines(
        folder / "reports.jsonl",
        [
            {"model": model, "variant": variant, "judge_model": judge, "dim_scores": scores(local, at)}
            for at, (model, variant) in enumerate(cells)
        ],
    )
    given = [
        {
            "model": model,
            "variant": variant,
            "fresh_scores": {"dimensions": scores(truth, at), "ko_fired": scores(truth, at)["safe"] < 3},
        }
        for at, (model, variant) in enumerate(cells)
    ]
    response = yaml.safe_dump({"reference": reference, "cells": given})
    ingest(folder, [("form", response.encode())], datetime(2026, 12, 1, tzinfo=UTC))
    return folder


def shown(*folders: Path, lang: str = "en") -> str:
    """The text of the page about these runs."""
    site = Site(tuple(open_bundle(folder).refresh() for folder in folders))
    (page,) = compare_judges.plan(site)
    return _text(Renderer().render(page, site, Words(lang)))


def _text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def off_by_one(i: int) -> int:
    return min(5, max(1, truth(i) + (1 if i % 2 else 0)))


def weak(i: int) -> int:
    return truth(i) if i % 3 else truth(i + 1)


def test_a_judge_that_always_says_5_wins_neither_skill_nor_kappa(tmp_path: Path) -> None:
    constant = checked(tmp_path / "five", "always-5", lambda i: 5)
    real = checked(tmp_path / "real", "real", off_by_one)
    (group,) = group_by_pack(rows_of(constant, real))
    five = next(row for row in group.rows if row.judge_model == "always-5")
    assert five.skill is not None and five.skill <= 0 and five.qwk == 0 and five.pairs == 60
    assert group.winners["skill"] == group.winners["qwk"] == "real|real"
    text = shown(constant, real)
    assert "Use real: it alone is better than always answering" in text
    assert "no better than always answering" in text
    assert "real is better than always-5: " in text

    alone = group_by_pack(rows_of(constant, checked(tmp_path / "five2", "also-5", lambda i: 5)))[0]
    assert alone.winners["skill"] is alone.winners["qwk"] is None
    text = shown(constant, tmp_path / "five2")
    assert "None of these 2 judges can be recommended: none is better than giving the same score to everything." in text
    text = shown(constant, checked(tmp_path / "five3", "always-5", lambda i: 5))
    assert "This judge cannot be recommended: it is no better than giving the same score to everything." in text


@pytest.mark.parametrize("constant", [1, 2, 3, 4, 5])
def test_no_constant_judge_is_ever_trusted(tmp_path: Path, constant: int) -> None:
    (row,) = rows_of(checked(tmp_path / "b", "constant", lambda i: constant))
    assert not trusted(row)
    words = lead(row, Words("en"))
    assert f"that is no better than always answering {row.constant_score}" in words


def test_two_judges_of_the_same_answers_are_compared_pair_by_pair(tmp_path: Path) -> None:
    perfect = checked(tmp_path / "a", "perfect", truth)
    good = checked(tmp_path / "b", "good", off_by_one)
    poor = checked(tmp_path / "c", "poor", weak)
    text = shown(perfect, good, poor)
    assert "perfect is better than good: 0.4" in text and "60 pairs)" in text
    assert "Use perfect: it is better than every other one here" in text
    twin = checked(tmp_path / "d", "twin", lambda i: off_by_one(i) if i != 3 else truth(3))
    text = shown(good, twin)
    assert re.search(r"good and twin are not separable|twin and good are not separable", text)
    assert "but the data cannot say that it is better than" in text and "not separable." in text


def test_few_models_are_too_few_for_a_comparison(tmp_path: Path) -> None:
    folders = [
        checked(tmp_path / name, name, local, models=MODELS[:4])
        for name, local in (("perfect", truth), ("good", off_by_one))
    ]
    text = shown(*folders)
    assert "perfect and good: too few. They share 24 pairs of 4 models" in text
    assert "perfect is ahead, better than always answering" in text and "too few pairs or models." in text
    assert "indicative" in text and "2 judges have no interval" in text


def test_judges_of_other_answers_are_not_compared_pair_by_pair(tmp_path: Path) -> None:
    one, two = checked(tmp_path / "a", "perfect", truth), checked(tmp_path / "b", "good", off_by_one)
    rewritten = [json.loads(line) for line in (two / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    write_lines(two / "answers.jsonl", [{**line, "answer": "Another answer."} for line in rewritten])
    text = shown(one, two)
    assert "pair by pair" not in text
    assert "perfect is ahead" in text and "the two judged different answers." in text


def test_other_references_are_another_group(tmp_path: Path) -> None:
    one = checked(tmp_path / "a", "perfect", truth)
    two = checked(tmp_path / "b", "good", off_by_one, reference="Other, 2026-12-01")
    text = shown(one, two)
    assert "Reference: Strong, 2026-12-01." in text and "Reference: Other, 2026-12-01." in text
    assert text.count("no other judge was checked in this way") == 2 and "best:" not in text


def test_a_judge_among_the_judged_is_named(tmp_path: Path) -> None:
    assert "is itself among the judged models" in shown(checked(tmp_path / "a", "m03", truth))
    assert "ist selbst unter den bewerteten Modellen" in shown(tmp_path / "a", lang="de")
    assert "is itself among" not in shown(checked(tmp_path / "b", "m3", truth))


def test_fewer_than_ten_pairs_give_no_kappa_and_no_trophy(tmp_path: Path) -> None:
    folders = [
        checked(tmp_path / name, name, local, models=MODELS[:1])
        for name, local in (("perfect", truth), ("good", off_by_one))
    ]
    (group,) = group_by_pack(rows_of(*folders))
    assert group.winners["skill"] is group.winners["qwk"] is None
    assert group.winners["mean_abs_delta"] == "perfect|perfect"
    assert not any(name.startswith("Skill") for name, _ in figures(group.rows[0], Words("en")))
    text = shown(*folders)
    assert text.count("fewer than 10 pairs") >= 4
    assert "The data cannot say which judge to use: no judge shares 10 pairs with the reference." in text


@given(
    st.integers(2, 5).flatmap(lambda n: st.lists(st.tuples(*[st.integers(1, 5)] * 3), min_size=n * 8, max_size=n * 8))
)
@settings(max_examples=40, deadline=None)
def test_a_comparison_is_the_same_from_either_side(triples: list[tuple[int, int, int]]) -> None:
    keys = [PairKey(f"m{i % 8}", "v", f"d{i // 8}", 0) for i in range(len(triples))]
    one = {key: (a, reference) for key, (a, _, reference) in zip(keys, triples, strict=True)}
    two = {key: (b, reference) for key, (_, b, reference) in zip(keys, triples, strict=True)}
    cells = {(f"m{i}", "v") for i in range(8)}
    there, back = compare(one, two, cells), compare(two, one, cells)
    assert there.difference is not None and there.difference == -(back.difference or 0.0)
    assert (there.pairs, there.models, there.moved) == (len(triples), 8, 0)
    if len(triples) < 50:
        assert there.outcome == back.outcome == "too few"
    if there.interval is not None:
        assert there.interval.low <= there.interval.high
    assert compare(one, one, cells).outcome in ("too few", "not separable")
    assert compare(one, two, set()).pairs == 0


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> BundleView:
    """A judge whose report is in order."""
    return open_bundle(checked(tmp_path_factory.mktemp("sound") / "sound", "sound", truth, MODELS[:2])).refresh()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300)
    | st.builds(
        lambda head, body: f"---\ntype: judge_quality\npack: probe\n{head}\n---\n{body}".encode("utf-8", "replace"),
        yamlish,
        yamlish,
    )
)
def test_no_bytes_named_judge_quality_md_break_a_page(
    tmp_path_factory: pytest.TempPathFactory, sound: BundleView, data: bytes
) -> None:
    odd = make_bundle(tmp_path_factory.mktemp("b") / "odd", models=MODELS[:2], pack=CHECKED_PACK)
    (odd / "judge_quality.md").write_bytes(data)
    site = Site((sound, open_bundle(odd).refresh()))
    renderer = Renderer()
    for kind in (compare_judges, quality_page):
        for page in kind.plan(site):
            for lang in ("en", "de"):
                assert "sound" in renderer.render(page, site, Words(lang)) or kind is quality_page
