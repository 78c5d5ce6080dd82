"""Bundles that somebody made to harm: the site stays a site, and says what it left out."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.making import PACK, make_bundle
from tests.pages import Html, dead_links, html_pages
from touchstone.build import Built, build
from touchstone.bundle import open_bundle
from touchstone.errors import TouchstoneError
from touchstone.markdown import markdown
from touchstone.options import Options

NAME = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>"\' style="x" &lt;b&gt; &#0; {{ 7*7 }} %(n)s %s '
    "\u202e\u2066abc \ufdd0 \U0001fffe </title>"
)
TEXT = (
    NAME
    + "![i](http://evil.example/x.png) [l](javascript:alert(1)) [r][r] <javascript:alert(1)> [d](data:text/html,x) "
    "[away](//evil.example/x) [file](other.html) [id](#nope) `c`\n\n[r]: javascript:alert(2)\n\n<iframe src=x>\n\n"
    "|a|b|\n|:-:|--:|\n|1|2|\n\n# heading\n\n" + "w" * 3000
)


def written(text: str) -> str:
    """`text` as a YAML file may hold it."""
    return text.replace("\ufdd0", "").replace("\U0001fffe", "")


def built(root: Path, **more: Any) -> tuple[Path, Built]:
    made = build(Options(runs=root / "runs", out=root / "public", state_home=root, **more))
    return root / "public", made


def poisoned(folder: Path) -> Path:
    """A bundle with an attack in every field that takes text."""
    pack = copy.deepcopy(PACK)
    name, text = written(NAME), written(TEXT)[:3000]
    pack |= {"title": name, "version": name, "glossary": {name: text}}
    for prompt in pack["prompts"]:
        prompt |= {"category": name[:150], "title": name, "text": text, "reference": text, "red_flags": [text]}
    for dimension in pack["dimensions"]:
        dimension |= {"name": name, "description": text, "levels": {1: text, 5: text}}
    bundle = make_bundle(folder, models=[NAME, "m"], pack=pack, text=TEXT, rationale=TEXT, judge=NAME)
    manifest = yaml.safe_load((bundle / "bundle.yaml").read_text(encoding="utf-8"))
    manifest |= dict.fromkeys(("derived_from", "replay_of", "source", "endpoint", "touchstone", "own"), name)
    manifest["host"] = {"os": name, "cpu": name, "gpu": name, "ram_bytes": 1}
    (bundle / "bundle.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    key = {"model": NAME, "variant": NAME, "repeat": 0, "category": NAME, "error": TEXT}
    with (bundle / "answers.jsonl").open("a") as file:
        for status in ("ok", "error", "empty", "truncated"):
            line = {**key, "prompt_id": NAME + status, "answer": TEXT, "reasoning": TEXT, "status": status}
            file.write(json.dumps(line) + "\n")
    with (bundle / "judgements.jsonl").open("a") as file:
        line = {**key, "prompt_id": "stray", "score": 0, "unscored": True, "rationale": TEXT, "raw": TEXT}
        file.write(json.dumps(line) + "\n")
    with (bundle / "judge_events.jsonl").open("a") as file:
        line = {"event": "master", "ts": 1, "model": NAME, "variant": NAME, "pct": 1e17, "safety_passed": False}
        file.write(json.dumps({**line, "safety_reason": TEXT, "recommendation": "Nein"}) + "\n")
    fields: dict[str, Any] = dict.fromkeys(("bundle", "pack", "pack_sha", "judge_model", "reference", "created"), name)
    fields |= {"type": "judge_quality", "mean_abs_delta": 1.5, "pairs": 5, "bias": -1e308, "inputs_sha": name}
    head = f"---\n{yaml.safe_dump(fields)}---\n"
    (bundle / "judge_quality.md").write_text(head + TEXT + "\0", encoding="utf-8")
    (bundle / "scorecard.md").write_text(head + TEXT, encoding="utf-8")
    return bundle


def test_what_is_injected_shows_as_text_wherever_it_stands(tmp_path: Path) -> None:
    poisoned(tmp_path / "runs" / "evil")
    broken = make_bundle(tmp_path / "runs" / "broken", models=["m"])
    (broken / "judge_quality.md").write_text("---\n[[[\n---\n" + TEXT, encoding="utf-8")
    site, made = built(tmp_path, base_url="https://x.example/")
    odd = "judge_quality.md has no readable frontmatter of that type; it takes no part in comparisons"
    assert made.notes == [f"broken: {odd}"]
    pages = html_pages(site)
    assert dead_links(site, pages) == []
    for name, page in pages.items():
        assert page.foreign == [], name
        for element in page.root.iter():
            assert not any(attribute.startswith("on") or attribute == "style" for attribute in element.attrib), name
        for link in page.links():
            assert not link.lower().startswith(("javascript:", "data:", "file:", "//")), (name, link)
        assert "\u202e" not in page.source, name
    assert "{{ 7*7 }}" in pages["runs/evil/index.html"].text


@pytest.mark.parametrize(
    "link", ["//evil.example/x", "other.html", "#nope", "/x", "javascript:x", "file:///etc", "x:y", "", "<>"]
)
def test_only_absolute_web_addresses_are_links_in_what_a_model_wrote(link: str) -> None:
    assert "<a" not in markdown(f"[a]({link}) [b][b]\n\n[b]: {link}")
    assert 'href="https://a.example/b#c"' in markdown("[a](https://a.example/b#c)")


def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("dir", "pipe"):
        bundle = make_bundle(runs / name, models=["m"])
        (bundle / "answers.jsonl").unlink()
    (runs / "dir" / "answers.jsonl").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(runs / "pipe" / "answers.jsonl")
        (runs / "only").mkdir()
        os.mkfifo(runs / "only" / "judge_events.jsonl")
    site, made = built(tmp_path)
    assert "dir: answers.jsonl is not an ordinary file and was not read" in made.notes
    assert "was not read" in Html(site / "runs/dir/index.html").text
    assert dead_links(site, html_pages(site)) == []


def test_a_file_that_nobody_may_read_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bundle(tmp_path / "runs" / "r", models=["m"])
    real = Path.open

    def locked(path: Path, *args: Any, **more: Any) -> Any:
        # Not by chmod: root, who runs many a container, may read everything.
        if path.name in ("judgements.jsonl", "pack.yaml"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    monkeypatch.setattr(Path, "open", locked)
    site, made = built(tmp_path)
    assert "r: judgements.jsonl could not be read: Permission denied" in made.notes
    assert "pack.yaml could not be read" in Html(site / "runs/r/index.html").text


def test_a_bundle_that_goes_away_while_its_pages_are_made_ends_no_build(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r", models=["m"])
    view = open_bundle(bundle).refresh()
    for path in bundle.iterdir():
        path.unlink()
    assert view.source.answer(0) is None and view.source.verdict(0) is None


def test_a_folder_called_like_another_one_s_address_gets_its_own(tmp_path: Path) -> None:
    twin = "a-b-" + hashlib.sha256(b"a b").hexdigest()[:8]
    make_bundle(tmp_path / "runs" / "a b", models=["first"])
    make_bundle(tmp_path / "runs" / twin, models=["second"])
    site, _ = built(tmp_path)
    homes = sorted((site / "runs").iterdir())
    assert len(homes) == 2
    assert {"first" in Html(home / "index.html").text for home in homes} == {True, False}


def test_half_written_files_of_a_killed_build_are_swept(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r", models=["m"])
    site, _ = built(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    orphan, alive = site / f".index.html.{gone.pid}.tmp", site / "runs" / f".x.{os.getpid()}.tmp"
    orphan.write_text("half")
    foreign = site / ".mine.tmp"
    foreign.write_text("of the user")
    alive.write_text("of a build that is under way")
    (state,) = (tmp_path / ".touchstone").iterdir()
    state.with_suffix(".claims").touch()  # as a killed build leaves it
    built(tmp_path)
    assert not orphan.exists() and foreign.exists() and alive.exists()


def test_nothing_behind_a_link_in_the_output_is_removed(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r", models=["m"])
    site, _ = built(tmp_path)
    (site / "runs" / "r").rename(tmp_path / "elsewhere")
    (site / "runs" / "r").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "runs" / "r").rename(tmp_path / "old")
    built(tmp_path)
    assert (tmp_path / "elsewhere" / "index.html").is_file()


@pytest.mark.parametrize("template", ["{% if %}", "{{ nope.x }}", "{% extends 'none.html' %}"])
def test_a_broken_template_is_said_in_one_line(tmp_path: Path, template: str) -> None:
    make_bundle(tmp_path / "runs" / "r", models=["m"])
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "index.html").write_text(template)
    with pytest.raises(TouchstoneError, match=r"index\.html.*template") as caught:
        built(tmp_path, templates=tmp_path / "own")
    assert "\n" not in str(caught.value)


def test_the_preview_of_the_scorecard_speaks_the_language_of_its_page(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "runs" / "r", models=["m"])
    row = open_bundle(bundle).refresh().rows[-1]
    line = {"event": "master", "ts": 1, **row.cell._asdict(), "pct": 1, "safety_passed": False}
    with (bundle / "judge_events.jsonl").open("a") as file:
        file.write(json.dumps({**line, "safety_reason": row.safety.reason, "recommendation": "Nein"}) + "\n")
    site, _ = built(tmp_path, langs=("de",))
    assert row.safety.reason
    page = Html(site / "runs/r/judge/index.html").text
    assert "rote Flagge in" in page and "red_flag" not in page
