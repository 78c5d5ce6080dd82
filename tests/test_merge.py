"""`touchstone merge`: parts become the whole, contradictions are named, the sources stay as they are."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import MANIFEST, PACK, answer, append, bundle, encoded, report, verdict
from tests.conftest import Cli
from tests.standin import StandIn
from tests.test_chain import lines, the_bundle, without_times, write_project
from touchstone.bundle import open_bundle
from touchstone.errors import BundleError, BusyError, InputError
from touchstone.merging import merge
from touchstone.store.lock import exclusive

PROMPTS = ("p1", "p2", "p3")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def manifest(**fields: Any) -> str:
    return yaml.safe_dump({**yaml.safe_load(MANIFEST), **fields})


def keys(log: Path) -> list[tuple[str, str, str, int]]:
    return [(line["model"], line["variant"], line["prompt_id"], line["repeat"]) for line in lines(log)]


# -- parts of one run


def test_shards_judged_apart_are_the_whole(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    cli("eval", "--events", "--model", "m1")
    original = the_bundle(cli.home)
    shards = []
    for k in (1, 2, 3):
        shard = cli.home / f"machine{k}" / original.name
        shutil.copytree(original, shard)
        cli("judge", "--bundle", str(shard), "--shard", f"{k}/3")
        shards.append(str(shard))
    before = [content(Path(shard)) for shard in shards]
    done = cli("merge", *shards, "--into", "whole")
    whole = cli.home / "machine1" / "whole"
    assert (
        done.out.startswith(f"{whole}: 12 answers, 12 verdicts, 0 reports") and "touchstone judge --bundle" in done.err
    )
    for name in ("answers.jsonl", "events.jsonl", "resources.jsonl", "pack.yaml"):
        assert (whole / name).read_bytes() == (original / name).read_bytes(), name
    assert [content(Path(shard)) for shard in shards] == before

    asked = len(endpoint.chats)
    cli("judge", "--bundle", str(whole), "--events")
    assert len(endpoint.chats) - asked == 2  # the reports of two cells
    cli("judge", "--bundle", str(original))
    for name in ("judgements.jsonl", "reports.jsonl"):
        assert without_times(whole / name) == without_times(original / name), name
    assert (whole / "scorecard.md").is_file()
    assert [line["event"] for line in lines(whole / "judge_events.jsonl")][-3:] == ["master", "master", "judge_done"]
    fields = yaml.safe_load((whole / "bundle.yaml").read_text())
    assert fields["source"] == f"touchstone merge: {original.name}" and fields["host"]


# -- runs of several models


def two_runs(home: Path) -> tuple[Path, Path]:
    """Two models asked apart: the second one later, both judged."""
    made = []
    for number, model in enumerate(("zeta", "alpha")):
        made.append(
            bundle(
                home / model,
                manifest=manifest(models=[model], variants=["v", "w"], created=f"2026-06-2{number}T10:00:00Z",
                                  host={"cpu": "one"}, peak_ram_bytes=number + 5, mine="kept"),
                answers=[answer(p, model=model, variant=v) for v in ("v", "w") for p in PROMPTS],
                judgements=[
                    verdict(p, 4, model=model, variant=v, judge_model="j") for v in ("v", "w") for p in PROMPTS
                ],
                reports=[report("v", model=model, hilfreich=4, sicherheit=4, klarheit=4)],
            )
        )  # fmt: skip
    return made[0], made[1]


def test_models_asked_apart(tmp_path: Path) -> None:
    one, two = two_runs(tmp_path)
    made = merge([two, one], "both")
    assert (made.bundle, made.answers, made.verdicts, made.reports) == (tmp_path / "both", 12, 12, 2)
    wanted = [(m, v, p, 0) for m in ("zeta", "alpha") for v in ("v", "w") for p in PROMPTS]
    assert keys(made.bundle / "answers.jsonl") == wanted == keys(made.bundle / "judgements.jsonl")
    fields = yaml.safe_load((made.bundle / "bundle.yaml").read_text())
    assert fields["models"] == ["zeta", "alpha"] and fields["variants"] == ["v", "w"] and fields["mine"] == "kept"
    assert fields["source"] == "touchstone merge: zeta, alpha" and fields["peak_ram_bytes"] == 6
    assert fields["created"].isoformat().startswith("2026-06-20T10:00:00")
    view = open_bundle(made.bundle).refresh()
    assert not view.problems and len(view.rows) == 4


def test_the_order_of_the_folders_does_not_matter(tmp_path: Path) -> None:
    folders = two_runs(tmp_path)
    made = [content(merge(order, f"m{n}").bundle) for n, order in enumerate(itertools.permutations(folders))]
    assert made[0] == made[1]


def test_what_is_alike_is_taken_once_and_what_a_later_run_would_ask_again_gives_way(tmp_path: Path) -> None:
    one = bundle(
        tmp_path / "a",
        answers=[answer("p1"), answer("p2", "", status="error", error="gone"), b"broken\n"],
        judgements=[verdict("p1", None, error="odd"), verdict("p2", 3)],
        reports=[report("v", hilfreich=None, sicherheit=4, klarheit=4)],
    )
    two = bundle(
        tmp_path / "b",
        answers=[answer("p2", "At last."), answer("p1"), b"broken\n"],
        judgements=[verdict("p1", 5), verdict("p2", 3)],
        reports=[report("v", hilfreich=2, sicherheit=4, klarheit=4)],
    )
    for number, order in enumerate(([one, two], [two, one])):
        made = merge(order, f"m{number}").bundle
        text = (made / "answers.jsonl").read_bytes()
        assert text == encoded([answer("p1"), answer("p2", "At last."), b"broken\n"])
        assert [line["score"] for line in lines(made / "judgements.jsonl")] == [5, 3]
        assert [line["dim_scores"]["hilfreich"] for line in lines(made / "reports.jsonl")] == [2]


def test_logs_of_two_runs_are_not_added_up(tmp_path: Path) -> None:
    one, two = two_runs(tmp_path)
    append(one / "events.jsonl", {"event": "eval_start", "total": 6})
    (two / "judge_quality.md").write_text("---\ntype: judge_quality\n---\n")
    made = merge([one, two], "both")
    assert not (made.bundle / "events.jsonl").exists() and not (made.bundle / "judge_quality.md").exists()
    assert "events.jsonl, judge_quality.md" in made.notes[0]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(PROMPTS), st.integers(0, 1)), unique=True, min_size=1),
       st.data())  # fmt: skip
def test_nothing_is_lost_however_a_run_is_cut(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[Any], data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("cut")
    parts = data.draw(st.lists(st.sets(st.sampled_from(chosen)), min_size=2, max_size=4))
    folders = []
    for number, part in enumerate(parts):
        picked = [item for item in chosen if item in part]
        folders.append(
            bundle(
                home / f"part{number}",
                answers=[answer(p, f"{m}{p}{r}", model=m, repeat=r) for m, p, r in picked],
                judgements=[verdict(p, 1 + len(p + m) % 5, model=m, repeat=r) for m, p, r in reversed(picked)],
            )
        )
    made = merge(folders, "whole").bundle
    wanted = {(m, "v", p, r) for part in parts for m, p, r in part}
    log = made / "answers.jsonl"
    there = keys(log) if log.exists() else []
    assert len(there) == len(wanted) and set(there) == wanted
    judged = made / "judgements.jsonl"
    assert (keys(judged) if judged.exists() else []) == there


# -- refused


def changed(folder: Path, name: str, number: int, **fields: Any) -> None:
    found = lines(folder / name)
    found[number] |= fields
    (folder / name).write_bytes(encoded(found))


CLASHES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an answer": (lambda b: changed(b, "answers.jsonl", 0, answer="No."), "answer zeta v p1 0: .*differ in answer"),
    "a verdict": (lambda b: changed(b, "judgements.jsonl", 1, score=2), "verdict zeta v p2 0: .*differ in score"),
    "a report": (lambda b: changed(b, "reports.jsonl", 0, summary="x"), "report zeta v: .*differ in summary"),
    "the judge": (lambda b: changed(b, "judgements.jsonl", 0, judge_model="k"), "by j and by k|by k and by j|verdict"),
    "the pack": (lambda b: (b / "pack.yaml").write_text(PACK + "# other\n"), "different packs"),
    "no pack": (lambda b: (b / "pack.yaml").unlink(), "has no pack.yaml"),
    "the asking": (lambda b: (b / "bundle.yaml").write_text(manifest(params={"temperature": 1.0})), "temperature"),
    "a link": (lambda b: (b / "events.jsonl").symlink_to("/dev/null"), "symbolic link"),
    "the manifest": (lambda b: (b / "bundle.yaml").write_text("created: yesterday"), "created"),
}


@pytest.mark.parametrize(("change", "says"), CLASHES.values(), ids=list(CLASHES))
def test_contradictions_are_named_and_nothing_is_made(
    tmp_path: Path, change: Callable[[Path], object], says: str
) -> None:
    one, _ = two_runs(tmp_path / "runs")
    (one / "bundle.yaml").write_text(manifest(params={"temperature": 0.0}))
    other = shutil.copytree(one, tmp_path / "runs" / "copy")
    change(other)
    before = [content(one), content(other)]
    with pytest.raises((BundleError, InputError), match=f"(?s){says}"):
        merge([one, other], "both")
    assert [content(one), content(other)] == before
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["alpha", "copy", "zeta"]


def test_many_contradictions_are_counted(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a", answers=[answer(f"q{n}") for n in range(50)])
    two = bundle(tmp_path / "b", answers=[answer(f"q{n}", "else") for n in range(50)])
    with pytest.raises(BundleError) as caught:
        merge([one, two], "both")
    assert str(caught.value).endswith("\nleave one of them out, or delete from it the lines that shall not count")
    assert "and 30 more" in str(caught.value) and str(caught.value).count("differ in answer") == 20


def test_different_judges_of_different_answers_are_not_mixed(tmp_path: Path) -> None:
    one, two = two_runs(tmp_path)
    for number in range(6):
        changed(two, "judgements.jsonl", number, judge_model="k")
    with pytest.raises(BundleError, match="by j and by k"):
        merge([one, two], "both")


def test_what_cannot_be_joined_at_all(tmp_path: Path) -> None:
    one, two = two_runs(tmp_path)
    (tmp_path / "empty").mkdir()
    for folders, name, says in [
        ([one, one], "x", "one bundle only"),
        ([one, tmp_path / "empty"], "x", "is no bundle"),
        ([one, two], "../x", "plain folder name"),
        ([one, two], "alpha", "there already"),
    ]:
        with pytest.raises(BundleError, match=says):
            merge(folders, name)
    with exclusive(two, "judge"), pytest.raises(BusyError, match="judge"):
        merge([one, two], "x")
    merge([one, two], "x")


def test_the_command_refuses_in_plain_words(cli: Cli) -> None:
    one, two = two_runs(cli.home)
    assert "at least two" in cli("merge", str(one), "--into", "x", code=2).err
    assert "there already" in cli("merge", str(one), str(two), "--into", "zeta", code=1).err


def test_kill_9_leaves_nothing_half(cli: Cli) -> None:
    one, two = (
        bundle(cli.home / name, answers=[answer(f"q{n}", "x" * 500, model=name) for n in range(20_000)])
        for name in ("a", "b")
    )
    for size in (0, 1_000_000, 15_000_000):
        process = cli.start("merge", str(one), str(two), "--into", "both")
        beside = cli.home / ".both.tmp" / "answers.jsonl"
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if beside.is_file() and beside.stat().st_size >= size:
                process.kill()
            time.sleep(0.001)
        process.communicate()
        if (cli.home / "both").exists():  # it was faster
            shutil.rmtree(cli.home / "both")
    assert not (cli.home / "both").exists()
    out = cli("merge", str(one), str(two), "--into", "both").out
    assert "40000 answers" in out and len(lines(cli.home / "both" / "answers.jsonl")) == 40_000
    assert not (cli.home / ".both.tmp").exists()
    assert json.loads((cli.home / "both" / "answers.jsonl").read_text().splitlines()[-1])["model"] == "b"
