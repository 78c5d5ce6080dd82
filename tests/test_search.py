"""The search: what it looks through is on disk as scripts of bounded size, and it finds it in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.making import PACK, make_bundle
from touchstone.build import build
from touchstone.options import Options
from touchstone.publishing import Publish

EVIL = "</script><b>\u2028 'x' \"y\" \\ ]);alert(1)//"


def site(home: Path, **more: Any) -> Path:
    out = home / "out"
    build(Options(runs=home / "runs", out=out, langs=("en", "de"), state_home=home, **more))
    return out


def entries(path: Path) -> list[Any]:
    """What a part or a shard hands over."""
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition("([\n")
    assert head in ("touchstoneSearch.part", "touchstoneSearch.shard") and rest.endswith("\n]);\n")
    found: list[Any] = json.loads("[" + rest.removesuffix(");\n"))
    return found


def test_every_run_pack_and_verdict_is_in_it_once(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "one", models=["m"], rationale=EVIL)
    make_bundle(tmp_path / "runs" / "two", models=["m"], judged=3)
    out = site(tmp_path)
    found = entries(out / "data" / "search-1.js")
    assert sorted(entry["run"] for entry in found if "run" in entry) == ["one", "two"]
    (pack,) = [entry for entry in found if "prompts" in entry]
    assert len(pack["prompts"]) == len(PACK["prompts"])
    _, *rows = entries(out / "runs/one/judge/search-1.js")
    assert len(rows) == 24 and {row[6] for row in rows} == {" ".join(EVIL.split())}
    assert len(entries(out / "runs/two/judge/search-1.js")) == 1 + 3
    for _, page, *_ in rows:
        assert (out / f"runs/one/judge/verdicts-{page}.html").is_file()


def test_parts_and_shards_stay_small(tmp_path: Path) -> None:
    models, pack = [f"model-{n:02}" * 6 for n in range(40)], {**PACK, "prompts": PACK["prompts"][:1]}
    for number in range(40):
        make_bundle(tmp_path / "runs" / f"run-{number:03}", models=models, pack=pack, judged=0, events=False)
    make_bundle(tmp_path / "runs" / "long", models=[f"m{n}" for n in range(60)], rationale="ü€" * 300)
    out = site(tmp_path)
    parts = sorted((out / "data").glob("search-*.js"))
    assert len(parts) > 1 and (out / "data/search-1.js").stat().st_size <= 60_000
    shards = list(out.rglob("judge/search-*.js"))
    assert len(shards) == 3 and max(path.stat().st_size for path in [*parts, *shards]) <= 300_000 * 2
    assert f'data-parts="{len(parts)}"' in (out / "index.html").read_text()


@pytest.mark.parametrize("publish", [Publish(rationales=False), Publish(prompts=False)])
def test_what_stays_at_home_is_not_found(tmp_path: Path, publish: Publish) -> None:
    prompts = [{"id": "p", "text": "MARK-PROMPT"}]
    make_bundle(tmp_path / "runs" / "one", models=["m"], pack={**PACK, "prompts": prompts}, rationale="MARK-REASON")
    text = "".join(path.read_text() for path in site(tmp_path, publish=publish).rglob("search-*.js"))
    assert ("MARK-PROMPT" in text, "MARK-REASON" in text) == (publish.prompts, publish.rationales)
