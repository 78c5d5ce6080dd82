"""What is published is chosen: what stays at home is on no page, in no table and in no download."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.making import PACK, make_bundle, write_lines
from tests.pages import dead_links, html_pages
from touchstone.build import build
from touchstone.giveaways import giveaways
from touchstone.options import Options
from touchstone.publishing import CAREFUL, Publish

SECRETS = {
    "answers": "ANSWER-7f3a",
    "reasoning": "THOUGHT-7f3a",
    "rationales": "RATIONALE-7f3a",
    "prompts": "PROMPT-7f3a",
    "host": "HOST-7f3a",
}


def everything(root: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in root.rglob("*") if path.is_file())


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One run in which every kind of text can be told apart."""
    prompts = [{**prompt, "text": SECRETS["prompts"]} for prompt in PACK["prompts"]]
    run = make_bundle(
        tmp_path / "runs" / "r",
        models=["m"],
        pack={**PACK, "prompts": prompts},
        text=SECRETS["answers"],
        rationale=SECRETS["rationales"],
    )
    answers = [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]
    write_lines(run / "answers.jsonl", [{**line, "reasoning": SECRETS["reasoning"]} for line in answers])
    manifest = (run / "bundle.yaml").read_text().replace("a processor", SECRETS["host"])
    (run / "bundle.yaml").write_text(manifest)
    return tmp_path


def site(home: Path, publish: Publish) -> Path:
    out = home / "out"
    build(Options(runs=home / "runs", out=out, langs=("en", "de"), publish=publish, state_home=home))
    return out


def test_all_of_it_goes_out_unless_told_otherwise(runs: Path) -> None:
    text = everything(site(runs, Publish()))
    assert [name for name, mark in SECRETS.items() if mark not in text] == []


@pytest.mark.parametrize("kept", SECRETS)
def test_what_stays_at_home_is_nowhere_and_the_rest_is_there(runs: Path, kept: str) -> None:
    out = site(runs, Publish(**{kept: False}))
    text = everything(out)
    gone = {kept, "reasoning"} if kept == "answers" else {kept}
    assert {name for name, mark in SECRETS.items() if mark not in text} == gone
    assert dead_links(out, html_pages(out)) == []


def test_the_choice_takes_effect_on_a_site_that_is_there(runs: Path) -> None:
    site(runs, Publish())
    out = site(runs, CAREFUL)
    text = everything(out)
    assert {name for name, mark in SECRETS.items() if mark in text} == {"rationales"}
    assert not list(out.rglob("answers-*.html"))
    assert site(runs, Publish()) == out and SECRETS["answers"] in everything(out)


def test_public_only_ever_keeps_more_at_home(runs: Path, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (tmp_path / "touchstone.yaml").write_text("publish: {rationales: false, answers: true, noindex: true}\n")
    result = cli("build", "--public")
    assert "stays at home: answers, reasoning, rationales, prompts, host" in result.out
    text = everything(tmp_path / "public")
    assert not [name for name, mark in SECRETS.items() if mark in text]
    assert '<meta name="robots" content="noindex">' in (tmp_path / "public" / "index.html").read_text()


def test_keys_and_addresses_are_named_with_their_place(tmp_path: Path) -> None:
    lines = ["fine", "key sk-abcdefghijklmnopqrstuvwx", "write to eva.muster@example.org", "https://u:pw@host.example/"]
    (tmp_path / "page.html").write_text("\n".join(lines))
    (tmp_path / "no.png").write_bytes(b"eva@example.org")
    assert [(path, line, kind) for path, line, kind, _ in giveaways(tmp_path)] == [
        ("page.html", 2, "an API key"),
        ("page.html", 3, "an e-mail address"),
        ("page.html", 4, "credentials in an address"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijklmnopqrstuvwx", "sk-proj-abcdefghijklmnopqrstuvwx", "sk-ant-api03-abcdefghijklmnopqrstuvwx",
        "ghp_" + "a1" * 18, "hf_" + "aB" * 17, "AKIA" + "A1" * 8, "xoxb-1234567890-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_123", "Bearer abcdefghijklmnopqrstuvwxyz",
    ],
)  # fmt: skip
def test_what_keys_look_like(tmp_path: Path, key: str) -> None:
    (tmp_path / "page.html").write_text(f"<p>key={key}</p>")
    assert len(list(giveaways(tmp_path))) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["sk-", "sk-a-", "eyJ-", "eyJaaaaaaaaaaaa.", "a@", "a@a.", "http://a:", "a.", "ghp_"])
def test_what_begins_like_a_key_a_million_times_is_looked_through_all_the_same(tmp_path: Path, piece: str) -> None:
    (tmp_path / "page.html").write_text(piece * 300_000)
    assert len(list(giveaways(tmp_path))) <= 2


def test_a_build_for_the_public_warns_of_them(runs: Path, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    log = tmp_path / "runs" / "r" / "judgements.jsonl"
    log.write_text(log.read_text().replace(SECRETS["rationales"], "ask eva.muster@example.org"))
    result = cli("build", "--public")
    assert "looks like an e-mail address" in result.err and "verdicts-1.html:" in result.err
    assert "eva.muster@example.org" not in result.err
