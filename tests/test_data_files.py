"""data/*.json and data/*.csv: the same tables in both, readable by strangers' programs, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.making import make_bundle, write_lines
from touchstone.build import build
from touchstone.options import Options
from touchstone.pages.data import TABLES, _cell, _plain

FORMULA = '=HYPERLINK("http://x.example","click")'
STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def built(home: Path, **options: Any) -> Path:
    site = home / "public"
    build(Options(runs=home / "runs", out=site, state_home=home, **options))
    return site


def strict(text: str) -> Any:
    """JSON as other languages read it: no NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def read(site: Path, name: str) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """The rows of a table from its JSON and from its CSV."""
    text = (site / "data" / f"{name}.csv").read_bytes().decode("utf-8")
    table = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    return strict((site / "data" / f"{name}.json").read_text(encoding="utf-8")), table


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A run, the same answers judged again, and a hostile one."""
    runs = tmp_path / "runs"
    make_bundle(runs / "first", judge="judge-a")
    again = make_bundle(runs / "second", judge="judge-b", score=lambda i: None if i % 2 else 5)
    with (again / "bundle.yaml").open("a", encoding="utf-8") as file:
        file.write("derived_from: first\npeak_ram_bytes: 9000000000\n")
    evil = make_bundle(runs / "=1+1", models=[FORMULA, "-2+3", '@a "b", c'], judge="+SUM(A1)", reports=False)
    (evil / "judge_quality.md").write_text(
        "---\n"
        + yaml.safe_dump(
            {"type": "judge_quality", "pack": FORMULA, "judge_model": "+SUM(A1)", "bias": -0.25, "skill": math.nan,
             "mean_abs_delta": -0.0, "reference": "a, \"b\"\nc", "created": "2026-06-20T10:48:44Z"}
        )
        + "---\n",
        encoding="utf-8",
    )  # fmt: skip
    return tmp_path


def as_text(value: Any) -> str:
    """What the CSV shows for a value of the JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def harmless(cell: str) -> bool:
    """Whether no spreadsheet takes it, or a piece of it, for a formula, whatever ends a cell there."""
    return not any(piece.lstrip('" \v\f').startswith(STARTS) for piece in re.split(r"[;\t\r\n]", cell))


def bare(text: str) -> str:
    """Without what keeps formulas from being some."""
    return text.replace("'", "")


@pytest.mark.parametrize("name", TABLES)
def test_json_and_csv_hold_the_same_table(home: Path, name: str) -> None:
    rows, table = read(built(home), name)
    assert rows
    assert [set(row) for row in rows] == [set(TABLES[name].columns)] * len(rows)
    assert list(table[0]) == list(TABLES[name].columns)
    assert [{key: bare(as_text(value)) for key, value in row.items()} for row in rows] == [
        {key: bare(value) for key, value in row.items()} for row in table
    ]


def test_no_text_starts_a_formula_and_numbers_stay_numbers(home: Path) -> None:
    rows, table = read(built(home), "scorecards")
    models = {row["model"] for row in table if row["run"] == "'=1+1"}
    assert models == {f"'{FORMULA}", "'-2+3", '\'@a "b", c'}
    assert {row["model"] for row in rows if row["run"] == "=1+1"} == {FORMULA, "-2+3", '@a "b", c'}
    judges, judges_table = read(built(home), "judges")
    assert judges[0]["bias"] == -0.25 and judges_table[0]["bias"] == "-0.25"


def test_unknown_is_null_and_zero_has_no_sign(home: Path) -> None:
    site = built(home)
    (judge,) = read(site, "judges")[0]
    assert judge["skill"] is None and judge["pairs"] is None
    assert judge["mean_abs_delta"] == 0 and "-0.0" not in (site / "data" / "judges.json").read_text()
    assert judge["created"] == "2026-06-20T10:48:44Z"
    runs = {row["run"]: row for row in read(site, "runs")[0]}
    assert runs["first"]["derived_from"] is None and runs["second"]["derived_from"] == "first"
    assert (runs["second"]["verdicts"], runs["second"]["unscored"], runs["second"]["mean_score"]) == (48, 24, 5.0)
    assert runs["first"]["created"] == "2026-06-20T10:48:44Z"


def test_an_eval_counts_once_however_often_it_was_judged(home: Path) -> None:
    rows, _ = read(built(home), "models")
    assert sorted((row["run"], row["model"]) for row in rows if row["run"] != "=1+1") == [
        ("first", "m-one"),
        ("first", "m-two"),
    ]
    assert {row["latency_p50_s"] for row in rows} == {1.5} and {row["ram_bytes"] for row in rows} == {16_000_000_000}


def test_an_eval_whose_own_run_is_gone_still_counts_once(home: Path) -> None:
    third = make_bundle(home / "runs" / "third", judge="judge-c")
    for bundle in (home / "runs" / "second", third):
        with (bundle / "bundle.yaml").open(encoding="utf-8") as file:
            text = file.read()
        (bundle / "bundle.yaml").write_text(
            text.replace("derived_from: first\n", "") + "derived_from: gone\n", encoding="utf-8"
        )
    rows, _ = read(built(home), "models")
    assert [row["run"] for row in rows].count("gone") == 2


def test_without_runs_there_are_heads_without_rows(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    site = built(tmp_path)
    for name, table in TABLES.items():
        assert (site / "data" / f"{name}.json").read_text() == "[]\n"
        assert (site / "data" / f"{name}.csv").read_bytes().decode() == ",".join(table.columns) + "\r\n"


def test_the_files_hold_no_texts(home: Path) -> None:
    site = built(home)
    tables = sorted(f"{name}.{kind}" for name in TABLES for kind in ("json", "csv"))
    assert sorted(path.name for path in (site / "data").iterdir()) == sorted([*tables, "search-1.js"])
    for path in (site / "data").iterdir():
        text = path.read_text(encoding="utf-8")
        assert "An answer." not in text and "Because of the words." not in text


def test_json_is_canonical(home: Path) -> None:
    site = built(home)
    for name in TABLES:
        text = (site / "data" / f"{name}.json").read_text(encoding="utf-8")
        assert text == json.dumps(strict(text), ensure_ascii=False, indent=2, sort_keys=True) + "\n"


@given(st.one_of(st.text(), st.text("=+-@;\t\r\n \"'x"), st.floats(), st.integers(), st.booleans(), st.none()))
def test_any_value_survives_both_formats(value: Any) -> None:
    plain = _plain(value)
    assert strict(json.dumps(plain, allow_nan=False)) == plain
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(["x", _cell(plain)])
    ((_, back),) = csv.reader(io.StringIO(out.getvalue(), newline=""), strict=True)
    assert bare(back) == bare(as_text(plain))
    assert not isinstance(value, str) or harmless(back)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("x", "x"), ("a-b;c", "a-b;c"), ("it's = 1", "it's = 1"), ("=1", "'=1"), (" =1", "' =1"), ("＝1", "'＝1"),
        ("a;=cmd|' /C calc'!A0", "a;'=cmd|' /C calc'!A0"), ('a; "=1"', "a;' \"=1\""), ("a\t-1", "a\t'-1"),
        ("\tx", "'\tx"), ("a\n@x", "a\n'@x"),
    ],
)  # fmt: skip
def test_also_where_another_sign_parts_the_cells(text: str, cell: str) -> None:
    assert _cell(text) == cell and harmless(cell)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["\n", ";", "; ", '\t "', " ", '"'])
def test_a_long_text_takes_no_longer_than_it_is(piece: str) -> None:
    assert _cell(piece * 1_000_000 + "x").endswith("x")


# -- feed, sitemap, 404


def test_feed_and_sitemap_are_xml_with_absolute_addresses_and_no_clock(home: Path) -> None:
    make_bundle(home / "runs" / "ctrl", models=["m\u0007<&>"])
    (home / "runs" / "timeless").mkdir()
    write_lines(home / "runs" / "timeless" / "judge_events.jsonl", [{"event": "judge_start", "total": 3}])
    base = "https://example.org/a&b/"
    site = built(home, base_url=base)
    first = (site / "feed.xml").read_bytes(), (site / "sitemap.xml").read_bytes()
    feed, sitemap = (ElementTree.fromstring(data) for data in first)
    atom = "{http://www.w3.org/2005/Atom}"
    links = [link.attrib["href"] for link in feed.iter(f"{atom}link")]
    assert len(feed.findall(f"{atom}entry")) == 5
    assert all(link.startswith(base) for link in links)
    updated = [str(each.text) for each in feed.iter(f"{atom}updated")]
    assert all(len(each) == 20 and each.endswith("Z") for each in updated) and updated[0] == max(updated)
    places = [str(each.text) for each in sitemap.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert base + "compare/index.html" in places and base + "runs/%3D1%2B1/index.html" in places
    assert len(places) == len(set(places)) and base + "404.html" not in places
    built(home, base_url=base)
    assert first == ((site / "feed.xml").read_bytes(), (site / "sitemap.xml").read_bytes())


def test_without_a_base_url_there_is_no_feed_and_no_home_link(home: Path) -> None:
    site = built(home)
    assert not (site / "feed.xml").exists() and not (site / "sitemap.xml").exists()
    assert "<a " not in (site / "404.html").read_text(encoding="utf-8")
    assert (site / ".nojekyll").read_bytes() == b""
    site = built(home, base_url="https://example.org/x/")
    assert 'href="https://example.org/x/"' in (site / "404.html").read_text(encoding="utf-8")
