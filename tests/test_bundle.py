"""A bundle on disk, followed: what is read, what is left out and said, and that following equals reading afresh."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import MANIFEST, PACK, answer, append, bundle, done, encoded, event, report, start, verdict
from touchstone.bundle import BundleState, open_bundle
from touchstone.contracts.lines import Answer, Verdict
from touchstone.contracts.pack import pack_sha
from touchstone.judge_events import VerdictEvent
from touchstone.store.bundles import Found
from touchstone.store.write import replace_file
from touchstone.view import BundleView

links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
ANSWERS = [answer("p1", "first"), answer("p2", "second"), answer("p3", "third")]


def read(folder: Path) -> BundleView:
    return open_bundle(folder).refresh()


def test_both_channels_are_one_and_the_full_verdict_wins(tmp_path: Path) -> None:
    view = read(bundle(
        tmp_path / "r",
        answers=ANSWERS,
        judgements=[verdict("p1", 5, rationale="in full")],
        judge_events=[start(3), event("p1", 1, rationale="in …"), event("p2", 2, red_flag=True, rationale="told"),
                      done(3, 2), event("unknown", 4)],
    ))  # fmt: skip
    assert view.judge.tally.histogram[1:6] == [0, 1, 0, 1, 1] and view.judge.tally.red_flags == 1
    assert (view.judge.done, view.judge.total, view.judge.finished, view.judge.aborted) == (3, 3, True, False)
    shown = [view.source.verdict(number) for number in view.keys.in_order()]
    assert [type(one) for one in shown] == [Verdict, VerdictEvent, type(None), VerdictEvent]
    assert [one.rationale for one in shown if one is not None] == ["in full", "told", None]
    answers = [view.source.answer(number) for number in view.keys.in_order()]
    assert [one.answer for one in answers if one is not None] == ["first", "second", "third"] and answers[3] is None


def test_the_later_line_wins_in_every_log(tmp_path: Path) -> None:
    view = read(bundle(
        tmp_path / "r",
        answers=[answer("p1", "old"), answer("p1", "new")],
        judgements=[verdict("p1", 1), verdict("p1", 5)],
        reports=[report(hilfreich=1), report(hilfreich=5)],
    ))  # fmt: skip
    assert (view.eval.done, view.judge.done, view.judge.tally.mean) == (1, 1, 5.0)
    said, judged = view.source.answer(0), view.source.verdict(0)
    assert said is not None and said.answer == "new" and judged is not None and judged.score == 5
    assert [one.dim_scores for one in view.reports.values()] == [{"hilfreich": 5}]


@pytest.mark.timeout(60)
def test_broken_lines_are_skipped_counted_and_named_and_keep_their_slots(tmp_path: Path) -> None:
    broken: list[Any] = [
        b"\n", b"  \r\n", b'{"half": \n', b"\xff\xfe\n", b"[" * 10_000 + b"\n", {"model": "m"},
        {**answer("p9"), "repeat": -1}, b'{"a": "' + b"x" * 17_000_000 + b'"}\n',
    ]  # fmt: skip
    view = read(bundle(tmp_path / "r", answers=[answer("p1"), *broken, answer("p2"), b'{"no": "end"']))
    problems = view.problems["answers.jsonl"]
    assert (problems.count, view.broken_lines) == (8, 8) and list(view.problems) == ["answers.jsonl"]
    assert [line for line, _ in problems.first] == [2, 3, 4, 5, 6, 7, 8, 9]
    reasons = dict(problems.first)
    assert reasons[2] == reasons[3] == "empty line" and reasons[9] == "longer than 16777216 bytes"
    assert reasons[4].startswith("not valid JSON") and "recursion limit" in reasons[6]
    assert "variant is missing" in reasons[7] and reasons[8].startswith("repeat: ")
    assert all(reason.isprintable() and len(reason) < 500 for reason in reasons.values())
    assert [view.keys.slot(number) for number in view.keys.in_order()] == [0, 9] and view.keys.slots == 10


def test_a_half_line_is_not_there_until_its_end_is(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS, judgements=[verdict("p1", 3)])
    state = BundleState(Found(folder, "r"))
    whole = encoded([verdict("p2", 5)])
    assert state.refresh().judge.done == 1
    for piece in (whole[:1], whole[1:-1]):
        append(folder / "judgements.jsonl", piece)
        view = state.refresh()
        assert view.judge.done == 1 and view.problems == {}, "no fault of anybody's"
    append(folder / "judgements.jsonl", whole[-1:])
    assert state.refresh().judge.done == 2


@pytest.mark.parametrize(
    "replace",
    [
        lambda log, data: log.write_bytes(data[: len(data) // 2]),
        lambda log, data: replace_file(log, encoded([verdict("p3", 1)])),
        lambda log, data: replace_file(log, data + data),
        lambda log, data: log.unlink(),
        lambda log, data: (log.unlink(), log.mkdir()),
        lambda log, data: log.write_bytes(b""),
    ],
    ids=["shrunk", "replaced", "replaced by a longer one", "gone", "a folder now", "emptied"],
)
def test_a_log_that_is_another_now_is_read_from_its_start(
    tmp_path: Path, replace: Callable[[Path, bytes], object]
) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS, judgements=[verdict("p1", 3), verdict("stray", 5)])
    state = BundleState(Found(folder, "r"))
    before = state.refresh()
    log = folder / "judgements.jsonl"
    replace(log, log.read_bytes())
    view, fresh = state.refresh(), read(folder)
    assert facts(view) == facts(fresh) and view.revision != before.revision


def test_an_edited_score_is_seen(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS, judgements=[verdict("p1", 3), verdict("p2", 3)])
    state = BundleState(Found(folder, "r"))
    assert state.refresh().judge.tally.mean == 3.0
    log = folder / "judgements.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"score": 3', b'"score": 5', 1))
    os.utime(log, ns=(1, 1))
    assert state.refresh().judge.tally.mean == 4.0


def test_a_text_is_shown_only_beside_its_own_key(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS[:2], judgements=[verdict("p1", 3), verdict("p2", 4)])
    append(folder / "judge_events.jsonl", event("p3", 1), event("p4", 2))
    view, seen = read(folder), read(folder)
    assert None not in (seen.source.answer(0), seen.source.verdict(0), seen.source.verdict(2))
    for name in ("answers.jsonl", "judgements.jsonl", "judge_events.jsonl"):
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        # The lines change places between the reading and the showing, as a clean rewrite may do it.
        replace_file(folder / name, b"".join(reversed(lines)))
    for number in range(len(view.keys)):
        said, judged = view.source.answer(number), view.source.verdict(number)
        assert said is None or said.key == view.keys.key(number)
        assert judged is None or judged.key == view.keys.key(number)
    assert [view.source.answer(0), view.source.verdict(0), view.source.verdict(2)] == [None] * 3
    shutil.rmtree(folder)
    assert [view.source.answer(0), view.source.verdict(0), view.source.verdict(2)] == [None] * 3
    assert seen.source.verdict(0) is not None, "what was read once is known"


@pytest.mark.parametrize(
    ("change", "note", "problem"),
    [
        ({"manifest": None}, "no bundle.yaml; shown from what is there", None),
        ({"pack": None}, "no pack.yaml; without it there are no weights, so no quality and no recommendation", None),
        ({"manifest": "models: {a: 1}\n"}, None, ("bundle.yaml", 1)),
        ({"manifest": "created: 1\n\nmodels: [\n"}, None, ("bundle.yaml", 4)),
        ({"pack": PACK.replace("weight: 4", "weight: 0")}, None, ("pack.yaml", 7)),
        ({"pack": PACK.encode("utf-16")}, None, ("pack.yaml", 1)),
        ({"pack": PACK.replace("By hand", "Für Überläufer").encode("latin-1")}, None, ("pack.yaml", 2)),
        ({"pack": b"title: " + b"x" * 17_000_000}, None, ("pack.yaml", 1)),
        ({"manifest": MANIFEST.replace("id: hand", "id: hand, sha256: beef")},
         "pack.yaml is not the one that bundle.yaml names (another sha256); shown with the one here", None),
        ({"manifest": MANIFEST.replace("id: hand", f"id: hand, sha256: {pack_sha(PACK.encode())}")}, None, None),
        ({"manifest": MANIFEST + "later: {version: [1, 2]}\n"}, None, None),
        ({"manifest": b"\xef\xbb\xbf" + MANIFEST.encode()}, None, None),
    ],
    ids=["no manifest", "no pack", "wrong manifest", "broken manifest", "wrong pack", "UTF-16 pack", "Latin-1 pack",
         "17 MB pack", "another sha", "the same sha", "keys of a later version", "byte order mark"],
)  # fmt: skip
def test_documents_in_any_state_cost_only_themselves(
    tmp_path: Path, change: dict[str, Any], note: str | None, problem: tuple[str, int] | None
) -> None:
    view = read(bundle(tmp_path / "r", answers=ANSWERS, judgements=[verdict("p1", 3)], **change))
    assert view.notes == (() if note is None else (note,))
    assert [(name, found.first[0][0]) for name, found in view.problems.items()] == (
        [] if problem is None else [problem]
    )
    assert (view.eval.done, view.judge.done) == (3, 1)
    assert (view.pack is None) is ("pack" in change) and len(view.rows) == (0 if "pack" in change else 1)


def test_the_pack_is_known_by_its_bytes_else_by_what_the_manifest_says(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("id: hand", "id: said, sha256: beef")
    with_pack = read(bundle(tmp_path / "a", manifest=manifest, answers=ANSWERS))
    assert (with_pack.pack_id, with_pack.pack_sha) == ("hand", pack_sha(PACK.encode()))
    without = read(bundle(tmp_path / "b", pack=None, manifest=manifest, answers=ANSWERS))
    assert (without.pack_id, without.pack_sha) == ("said", "beef")
    nothing = read(bundle(tmp_path / "c", pack=None, manifest=None, answers=ANSWERS))
    assert (nothing.pack_id, nothing.pack_sha) == (None, None)


def test_what_was_put_aside_is_not_read(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS)
    plain = facts(read(folder))
    (folder / "judgements.jsonl.1.old").write_bytes(encoded([verdict("p1", 1)]))
    (folder / "scorecard.md.old").write_text("old")
    assert facts(read(folder)) == plain


@links
def test_links_are_not_read_and_each_is_named(tmp_path: Path) -> None:
    outside = bundle(tmp_path / "outside", judgements=[verdict("p1", 1)], reports=[report(hilfreich=1)])
    (outside / "judge_quality.md").write_text("secret")
    folder = bundle(tmp_path / "r", pack=None, answers=ANSWERS)
    for name in ("judgements.jsonl", "reports.jsonl", "pack.yaml", "judge_quality.md"):
        (folder / name).symlink_to(outside / name)
    view = read(folder)
    assert (view.judge.done, view.reports, view.pack, view.quality_md) == (0, {}, None, None)
    named = [note.split(" ")[0] for note in view.notes if note.endswith("is a symbolic link and was not read")]
    assert named == ["judgements.jsonl", "pack.yaml", "reports.jsonl"]


def test_the_judge_view_does_not_read_the_load_of_the_machine(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS, judgements=[verdict("p1", 3)])
    plain = facts(read(folder))
    (folder / "resources.jsonl").write_bytes(b'{"ts": 1, "cpu_percent": 99}\nbroken\n')
    assert facts(open_bundle(folder, omit=["resources.jsonl"]).refresh()) == plain
    view = read(folder)
    assert view.load.samples == 1 and view.problems["resources.jsonl"].count == 1


UNSEEN: dict[str, Callable[[Path], object]] = {
    "nothing": lambda folder: None,
    "a foreign file": lambda folder: (folder / "notes.txt").write_text("x"),
    "half a line": lambda folder: append(folder / "judgements.jsonl", b'{"half'),
}
SEEN: dict[str, Callable[[Path], object]] = {
    "a verdict": lambda folder: append(folder / "judgements.jsonl", verdict("p2", 4)),
    "an event": lambda folder: append(folder / "judge_events.jsonl", start(3)),
    "a broken line": lambda folder: append(folder / "answers.jsonl", b"broken\n"),
    "the pack": lambda folder: (folder / "pack.yaml").write_text(PACK + "# a comment\n"),
    "the manifest": lambda folder: (folder / "bundle.yaml").unlink(),
    "a quality report": lambda folder: (folder / "judge_quality.md").write_text("x"),
    "a scorecard": lambda folder: (folder / "scorecard.md").write_text("x"),
}


@pytest.mark.parametrize(
    ("change", "same"),
    [*((change, True) for change in UNSEEN.values()), *((change, False) for change in SEEN.values())],
    ids=[*UNSEEN, *SEEN],
)
def test_the_revision_changes_with_what_was_read_and_only_then(
    tmp_path: Path, change: Callable[[Path], object], same: bool
) -> None:
    folder = bundle(tmp_path / "r", answers=ANSWERS, judgements=[verdict("p1", 3)])
    state = BundleState(Found(folder, "r"))
    before = state.refresh().revision
    change(folder)
    assert (state.refresh().revision == before) is same


def facts(view: BundleView) -> dict[str, Any]:
    """All that can be told of a view, but for where it was read from."""
    keys = [view.keys.key(number) for number in view.keys.in_order()]
    number = {view.keys.key(n): n for n in range(len(view.keys))}
    return {
        "keys": keys,
        "slots": [view.keys.slot(number[key]) for key in keys],
        "lines": view.keys.slots,
        "answers": [view.source.answer(number[key]) for key in keys],
        "verdicts": [view.source.verdict(number[key]) for key in keys],
        "tally": view.judge.tally,
        "judge": (view.judge.total, view.judge.finished, view.judge.aborted, view.judge.eta_s, view.judge.masters,
                  view.judge.last_ts, view.judge_model),
        "eval": (view.eval.done, view.eval.total, view.eval.finished, view.eval.speeds(), view.eval.categories),
        "reports": view.reports,
        "cells": view.cells,
        "rows": view.rows,
        "problems": view.problems,
        "notes": view.notes,
        "sha": view.inputs_sha,
        "documents": (view.manifest, view.pack, view.pack_sha, view.quality_md, view.scorecard_md),
    }  # fmt: skip


PROMPTS = st.sampled_from(["p1", "p2", "p3", "stray"])
SCORES = st.none() | st.integers(1, 5)
VARIANTS = st.sampled_from(["v", "w"])
BROKEN = st.sampled_from([b"\n", b"broken\n", b"\xff\n", b'{"event": "verdict"}\n', b'{"half'])
LINES: dict[str, st.SearchStrategy[Any]] = {
    "answers.jsonl": st.builds(
        answer, PROMPTS, st.sampled_from(["one", "two"]), variant=VARIANTS, ts=st.none() | st.integers(0, 99),
        status=st.sampled_from(["ok", "error"]), metrics=st.builds(dict, total_s=st.integers(0, 9)),
    ),
    "judgements.jsonl": st.builds(
        verdict, PROMPTS, SCORES, variant=VARIANTS, red_flag=st.none() | st.booleans(), judge_model=st.just("full")
    ),
    "judge_events.jsonl": st.one_of(
        st.builds(event, PROMPTS, SCORES, variant=VARIANTS, ts=st.integers(0, 99), prior=st.booleans()),
        st.builds(start, st.integers(0, 9)),
        st.builds(done, st.integers(0, 9), st.integers(0, 9)),
        st.builds(dict, event=st.just("master"), model=st.just("m"), variant=VARIANTS, pct=st.integers(20, 100)),
    ),
    "reports.jsonl": st.builds(report, VARIANTS, hilfreich=SCORES, sicherheit=SCORES, klarheit=SCORES),
    "events.jsonl": st.one_of(
        st.builds(dict, event=st.just("eval_start"), total=st.integers(0, 9)), st.just({"event": "eval_done"})
    ),
}  # fmt: skip
APPENDS = st.one_of(
    [
        st.tuples(st.just(name), st.lists(st.one_of(lines, BROKEN), min_size=1, max_size=4))
        for name, lines in LINES.items()
    ]
)
OTHERS = st.tuples(
    st.sampled_from([*LINES, "pack.yaml", "bundle.yaml"]),
    st.sampled_from(["shrink", "rewrite", "reverse", "remove", "folder", "end"]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(APPENDS, APPENDS, APPENDS, OTHERS), max_size=10))
def test_following_a_bundle_equals_reading_it_afresh(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    folder = bundle(tmp_path_factory.mktemp("follow") / "r")
    state = BundleState(Found(folder, "r"))
    for name, what in steps:
        path = folder / name
        if path.is_dir():
            path.rmdir()
        data = path.read_bytes() if path.exists() else b""
        lines = data.splitlines(keepends=True)
        if isinstance(what, list):
            append(path, *what)
        elif what == "end" and name.endswith(".jsonl"):
            append(path, b"\n")
        elif what == "shrink":
            path.write_bytes(data[: len(data) * 2 // 3])
        elif what == "rewrite":
            replace_file(path, b"".join(dict.fromkeys(lines)))
        elif what == "reverse":
            replace_file(path, b"".join(reversed(lines)))
        elif what in ("remove", "folder"):
            path.unlink(missing_ok=True)
            if what == "folder":
                path.mkdir()
        assert facts(state.refresh()) == facts(read(folder))
    assert facts(state.refresh()) == facts(state.refresh()), "nothing came since"


def test_the_builders_write_what_they_say(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "r", answers=[answer("p1", "é\n")])
    (line,) = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert Answer.model_validate_json(line).answer == "é\n" and json.loads(line) == answer("p1", "é\n")
    assert not (folder / "judgements.jsonl").exists()
