"""The built site, read as a browser would: every page valid, every link alive, every fact there without a script."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.making import PACK, make_bundle
from tests.pages import Html, dead_links, html_pages
from touchstone.build import Builder, Built, build
from touchstone.contracts.lines import Key
from touchstone.options import Options
from touchstone.pages.common import row_id

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}{% raw %}"


def built(home: Path, **options: object) -> tuple[Path, Built]:
    site = home / "public"
    return site, build(Options(runs=home / "runs", out=site, state_home=home, **options))  # type: ignore[arg-type]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Runs of every sort: whole, half judged, unscored, repeated, hostile, without a pack, broken, empty, nested."""
    runs = tmp_path / "runs"
    make_bundle(runs / "2026-06-20_104844_eval_probe")
    make_bundle(runs / "2026-06-21_104844_eval_probe", judged=7, created="2026-06-21T10:48:44Z")
    make_bundle(runs / "2026-06-22_104844_eval_probe", score=lambda i: None if i % 3 == 0 else 5, repeats=2)
    hostile = {
        **PACK,
        "id": "evil",
        "title": EVIL,
        "glossary": {EVIL: EVIL},
        "variants": [{"id": "v", "system": EVIL}],
        "dimensions": [{**PACK["dimensions"][0], "name": EVIL, "description": EVIL, "levels": {1: EVIL}}],
        "prompts": [
            {"id": f"p{n}", "category": EVIL, "title": EVIL, "text": EVIL, "reference": EVIL, "red_flags": [EVIL]}
            for n in range(6)
        ],
    }
    make_bundle(
        runs / f"ev<i>l & 100% #{1}?", models=[EVIL, "../../m"], pack=hostile, text=EVIL, rationale=EVIL, judge=EVIL
    )
    make_bundle(runs / "without pack")
    (runs / "without pack" / "pack.yaml").unlink()
    make_bundle(runs / "broken" / "nested")
    for name in ("answers.jsonl", "judgements.jsonl", "judge_events.jsonl", "reports.jsonl"):
        path = runs / "broken" / "nested" / name
        lines = path.read_bytes().splitlines(keepends=True)
        lines[1:1] = [b'{"half": \n', b"\n", b"\xff\xfe\n", b'{"model": "\\u0000"}\n', b"[" * 10_000 + b"\n"]
        path.write_bytes(b"".join(lines) + b'{"no": "end"')
    (runs / "broken" / "nested" / "judge_quality.md").write_text(f"---\ntype: {EVIL}\n---\n{EVIL}\n")
    make_bundle(runs / "quality")
    (runs / "quality" / "judge_quality.md").write_text(
        "---\ntype: judge_quality\nbundle: quality\npack: probe\njudge_model: judge-a\nmean_abs_delta: 0.5\n"
        "cites_evidence_rate: 0.75\ninputs_sha: other\n---\n# Judge\n\n## Headline\n\n" + EVIL + "\n"
    )
    (runs / "quality" / "scorecard.md").write_text("---\ntype: scorecard\ninputs_sha: other\n---\n# Card\n")
    (runs / "only events").mkdir()
    (runs / "only events" / "judge_events.jsonl").write_text('{"event": "judge_start", "ts": 1, "total": 4}\n')
    make_bundle(runs / "ignored.old")
    return tmp_path


def test_every_page_is_valid_and_every_link_leads_somewhere(many: Path) -> None:
    site, result = built(many, base_url="https://example.org/x/", langs=("en", "de"))
    pages = html_pages(site)
    assert dead_links(site, pages) == []
    assert result.runs == 8
    assert {"index.html", "compare/index.html", "compare-judges/index.html", "404.html", "de/index.html"} <= set(pages)
    assert {p.name for p in site.iterdir()} >= {"feed.xml", "sitemap.xml", ".nojekyll", "data", "assets"}
    assert not [name for name in pages if ".old" in name]


def test_text_from_files_is_text_and_nothing_else(many: Path) -> None:
    site, _ = built(many)
    pages = html_pages(site)
    for name, page in pages.items():
        assert page.foreign == [], name
        handlers = [a for e in page.root.iter() for a in e.attrib if a.startswith("on") or (a == "style")]
        assert not handlers, name
        assert not [link for link in page.links() if link.lower().startswith(("javascript:", "data:"))], name
    (home,) = [path for path in (site / "runs").iterdir() if path.name.startswith("ev-i-l")]
    for path in ("index.html", "answers-1.html", "judge/index.html", "judge/verdicts-1.html"):
        assert EVIL.split('"')[0] in Html(home / path).text, path
    assert "49" not in Html(home / "answers-1.html").text.replace("7*7", "")


def test_pages_carry_their_policy_and_no_script(many: Path) -> None:
    site, _ = built(many)
    for name, page in html_pages(site).items():
        policies = [
            e.attrib["content"] for e in page.all("meta") if e.attrib.get("http-equiv") == "Content-Security-Policy"
        ]
        assert len(policies) == 1 and "default-src 'none'" in policies[0], name
        assert "script-src 'unsafe" not in policies[0] and "http" not in policies[0], name
        assert ("'unsafe-inline'" in policies[0]) == (name == "404.html")


def test_the_histogram_and_every_verdict_are_there_without_a_script(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r")
    site, _ = built(tmp_path)
    monitor = Html(site / "runs/r/judge/index.html")
    text = " ".join("".join(monitor.root.itertext()).split())
    assert "Score 1: 10; Score 2: 10; Score 3: 10; Score 4: 9; Score 5: 9" in text
    assert "All 48 verdicts are in." in monitor.text
    ids = [row for path in sorted((site / "runs/r/judge").glob("verdicts-*.html")) for row in rows_of(Html(path))]
    lines = [json.loads(line) for line in (bundle / "judgements.jsonl").read_text().splitlines()]
    assert ids == [row_id(Key(v["model"], v["variant"], v["prompt_id"], v["repeat"])) for v in lines]
    flagged = Html(site / "runs/r/judge/flagged-1.html")
    assert len(rows_of(flagged)) == 1 and rows_of(flagged) == [ids[4]]


def rows_of(page: Html) -> list[str]:
    """Ids of the verdict rows, in order."""
    return [row.attrib["id"] for row in page.all("tr") if "id" in row.attrib]


def test_a_slot_decides_the_page_and_unjudged_slots_stay_absent(tmp_path: Path) -> None:
    pack = {**PACK, "prompts": [{"id": f"p{n:03}", "text": "?"} for n in range(300)]}
    bundle = make_bundle(tmp_path / "runs" / "r", pack=pack, models=["m"], events=False, reports=False)
    lines = (bundle / "judgements.jsonl").read_text().splitlines(keepends=True)
    stray = json.loads(lines[0]) | {"prompt_id": "stray"}
    (bundle / "judgements.jsonl").write_text("".join(lines[260:270]) + json.dumps(stray) + "\n")
    site, _ = built(tmp_path)
    counts = {path.name: len(rows_of(Html(path))) for path in (site / "runs/r/judge").glob("verdicts-*.html")}
    assert counts == {"verdicts-1.html": 0, "verdicts-2.html": 10, "verdicts-3.html": 0, "verdicts-4.html": 1}


def test_an_append_changes_one_verdict_page_and_no_other(tmp_path: Path) -> None:
    pack = {**PACK, "prompts": [{"id": f"p{n:03}", "text": "?"} for n in range(400)]}
    bundle = make_bundle(tmp_path / "runs" / "r", pack=pack, models=["m"], events=False, reports=False)
    lines = (bundle / "judgements.jsonl").read_text().splitlines(keepends=True)
    (bundle / "judgements.jsonl").write_text("".join(lines[:300]))
    builder = Builder(Options(runs=tmp_path / "runs", out=tmp_path / "public", state_home=tmp_path))
    builder.update()
    with (bundle / "judgements.jsonl").open("a") as file:
        file.write(lines[300])
    written = builder.update().written
    assert [path for path in written if "verdicts-" in path] == ["runs/r/judge/verdicts-2.html"]
    assert [path for path in written if "answers-" in path] == ["runs/r/answers-13.html"]


def test_any_order_of_changes_ends_like_a_clean_build(many: Path) -> None:
    options = Options(runs=many / "runs", out=many / "public", state_home=many, langs=("en", "de"))
    builder = Builder(options)
    builder.update()
    runs = many / "runs"
    (runs / "quality").rename(runs / "renamed")
    builder.update()
    with (runs / "2026-06-21_104844_eval_probe" / "judgements.jsonl").open("a") as file:
        file.write('{"model": "m-one", "variant": "plain", "prompt_id": "p09", "repeat": 0, "score": 2}\n')
    builder.update()
    log = runs / "2026-06-20_104844_eval_probe" / "judgements.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:5]))
    (runs / "2026-06-22_104844_eval_probe" / "reports.jsonl").unlink()
    builder.update()
    for path in (runs / "without pack").iterdir():
        path.unlink()
    builder.update()
    assert builder.update().written == []
    clean = many / "clean"
    build(Options(runs=runs, out=clean, state_home=many / "elsewhere", langs=("en", "de")))
    assert contents(many / "public") == contents(clean)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_page_says_when_it_was_made(many: Path) -> None:
    from datetime import UTC, datetime

    site, _ = built(many)
    today = datetime.now(UTC)
    for name, page in html_pages(site).items():
        assert today.strftime("%Y-%m-%d") not in page.source and today.strftime("%d.%m.%Y") not in page.source, name


def test_own_templates_replace_ours_file_by_file(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r")
    own = tmp_path / "own"
    (own / "assets").mkdir(parents=True)
    (own / "404.html").write_text("<!doctype html><title>mine</title><p>{{ _('Page not found') }}</p>")
    (own / "assets" / "style.css").write_text("body{color:red}")
    (own / "assets" / "extra.css").write_text("p{}")
    site, _ = built(tmp_path, templates=own)
    assert "mine" in (site / "404.html").read_text()
    assert (site / "assets" / "style.css").read_text() == "body{color:red}" and (
        site / "assets" / "extra.css"
    ).is_file()
    assert "touchstone" in (site / "index.html").read_text()


def test_languages_link_each_other_and_data_exists_once(many: Path) -> None:
    site, _ = built(many, langs=("de", "en"))
    german, english = Html(site / "index.html"), Html(site / "en" / "index.html")
    assert german.root.attrib["lang"] == "de" and english.root.attrib["lang"] == "en"
    assert "en/index.html" in list(german.links()) and "../index.html" in list(english.links())
    assert not (site / "en" / "data").exists() and not (site / "en" / "404.html").exists()
    assert any(link.endswith("data/runs.json") for link in english.links())


def test_the_wire_words_stay_in_data_and_pages_translate_them(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r")
    site, _ = built(tmp_path, langs=("en", "de"))
    cells = json.loads((site / "data" / "scorecards.json").read_text())
    assert [cell["recommendation"] for cell in cells].count("Nein") == 1
    assert "Nein" not in Html(site / "runs/r/index.html").text and "No" in Html(site / "runs/r/index.html").text
    assert "Nein" in Html(site / "de/runs/r/index.html").text


def test_an_empty_runs_folder_makes_a_friendly_site(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    site, _ = built(tmp_path)
    assert dead_links(site, html_pages(site)) == []
    assert "touchstone eval" in Html(site / "index.html").text


def test_index_is_paged_newest_first(tmp_path: Path) -> None:
    for n in range(53):
        folder = tmp_path / "runs" / f"run-{n:02}"
        folder.mkdir(parents=True)
        (folder / "bundle.yaml").write_text(f"schema: 1\ncreated: 2026-01-01T00:{n:02}:00Z\n")
    site, _ = built(tmp_path)
    first, second = Html(site / "index.html"), Html(site / "index-2.html")
    assert "run-52" in first.text and "run-02" not in first.text and "run-02" in second.text
    assert dead_links(site, html_pages(site)) == []


def test_a_verdict_s_address_follows_from_its_key() -> None:
    assert row_id(Key("m", "v", "p", 0)) == row_id(Key("m", "v", "p", 0)) != row_id(Key("m", "v", "p", 1))
    assert re.fullmatch(r"v-[0-9a-f]{12}", row_id(Key("ü <x>", "\u202e", "p", 3)))
