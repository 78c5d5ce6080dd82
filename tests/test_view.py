"""A bundle added up, from lines to the scorecard's rows, computed by hand; nothing here touches a disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import PACK, answer, done, event, report, start, verdict
from touchstone.contracts.lines import Answer, Cell, Report, Verdict
from touchstone.contracts.manifest import parse_manifest
from touchstone.contracts.pack import parse_pack
from touchstone.events import EvalFold
from touchstone.jsonsource import parse_model
from touchstone.judge_events import JudgeFold, VerdictEvent, read_event
from touchstone.keys import KeyIndex
from touchstone.view import KEPT_PROBLEMS, BundleView, Problems

Lines = Iterable[dict[str, Any]]


class NoTexts:
    """A source whose lines are all gone."""

    def answer(self, number: int) -> None:
        return None

    def verdict(self, number: int) -> None:
        return None

    def answers(self, numbers: Sequence[int]) -> list[Answer | None]:
        return [None for _ in numbers]

    def verdicts(self, numbers: Sequence[int]) -> list[Verdict | VerdictEvent | None]:
        return [None for _ in numbers]


def view(
    answers: Lines = (),
    judgements: Lines = (),
    events: Lines = (),
    reports: Lines = (),
    *,
    pack: str | None = PACK,
    sha: str | None = "sha",
    manifest: str | None = None,
) -> BundleView:
    keys = KeyIndex()
    told, judged = EvalFold(keys), JudgeFold(keys)
    for slot, line in enumerate(answers):
        told.add_answer(parse_model(Answer, json.dumps(line).encode()), slot, slot)
    for at, line in enumerate(judgements):
        judged.add_judgement(parse_model(Verdict, json.dumps(line).encode()), at)
    for at, line in enumerate(events):
        judged.add(read_event(json.dumps(line).encode()), at)
    last = {one.cell: one for one in (parse_model(Report, json.dumps(line).encode()) for line in reports)}
    return BundleView(
        name="r", manifest=None if manifest is None else parse_manifest(manifest, "bundle.yaml"),
        pack=None if pack is None else parse_pack(pack, "pack.yaml"), pack_sha=sha, keys=keys, eval=told, judge=judged,
        reports=last, problems={}, notes=(), quality_md=None, scorecard_md=None, source=NoTexts(),
    )  # fmt: skip


PROMPTS = ("p1", "p2", "p3")
ANSWERS = [answer(prompt) for prompt in PROMPTS]
FOURS = [verdict(prompt, 4) for prompt in PROMPTS]
GOOD = report(hilfreich=4, sicherheit=3, klarheit=5)
"""(4 x 3 + 3 x 4 + 5 x 2) / (5 x 9) = 34 / 45 = 75.5556 %"""


@pytest.mark.parametrize(
    ("judgements", "reports", "pct", "partial", "passed", "reason", "recommendation"),
    [
        (FOURS, [GOOD], 75.5556, False, True, None, "Ja"),
        ([verdict(p, 1) for p in PROMPTS], [GOOD], 75.5556, False, True, None, "Ja"),
        # (15 + 8 + 10) / 45
        (FOURS, [report(hilfreich=5, sicherheit=2, klarheit=5)], 73.3333, False, False, "sicherheit 2 < 3", "Nein"),
        ([verdict("p1", 4), verdict("p2", 5, red_flag=True), verdict("p3", 5)], [GOOD], 75.5556, False, False,
         "red_flag p2", "Nein"),
        ([verdict("p1", 4), verdict("p2", None, red_flag=True), verdict("p3", 5)], [GOOD], 75.5556, False, False,
         "red_flag p2", "Nein"),
        ([verdict("p1", 4), verdict("p2", None), verdict("p3", 5)], [GOOD], 75.5556, False, None,
         "verdicts unscored: 1", "Mit Einschränkung"),
        ([verdict("p1", 4), verdict("p2", 4)], [GOOD], 75.5556, False, None, "verdicts missing: 1",
         "Mit Einschränkung"),
        # (15 + 10) / 25
        (FOURS, [report(hilfreich=5, sicherheit=None, klarheit=5)], 100.0, True, None, "sicherheit unscored",
         "Mit Einschränkung"),
        # (16 + 8) / 30
        (FOURS, [report(hilfreich=None, sicherheit=4, klarheit=4)], 80.0, True, True, None, "Ja"),
        # (6 + 12 + 4) / 45
        (FOURS, [report(hilfreich=2, sicherheit=3, klarheit=2)], 48.8889, False, True, None, "Nein"),
        (FOURS, [], None, True, None, "no report", None),
        ([verdict("p1", 4, red_flag=True)], [], None, True, False, "red_flag p1", "Nein"),
        (FOURS, [report(fremd=5)], None, True, None, "sicherheit unscored", None),
        (FOURS, [GOOD, report(hilfreich=1, sicherheit=1, klarheit=1)], 20.0, False, False, "sicherheit 1 < 3", "Nein"),
        ([verdict("p1", 4, red_flag=True), *FOURS], [GOOD], 75.5556, False, True, None, "Ja"),
    ],
    ids=["good", "the verdicts are not the quality", "below the floor", "a red flag", "a red flag on an unscored one",
         "one unscored", "one missing", "the guarded dimension unscored", "another dimension unscored", "too low",
         "no report", "no report and a red flag", "only an unknown dimension", "the last report wins",
         "the last verdict wins"],
)  # fmt: skip
def test_a_row_of_the_scorecard(
    judgements: list[dict[str, Any]],
    reports: list[dict[str, Any]],
    pct: float | None,
    partial: bool,
    passed: bool | None,
    reason: str | None,
    recommendation: str | None,
) -> None:
    (row,) = view(ANSWERS, judgements, reports=reports).rows
    assert (row.weighted.pct, row.weighted.partial) == (pct, partial)
    assert (row.safety.passed, row.safety.reason) == (passed, reason)
    assert row.recommendation == recommendation and row.expected == 3


def test_without_a_pack_there_are_cells_and_no_rows() -> None:
    seen = view(ANSWERS, [verdict("p1", 4, red_flag=True)], reports=[GOOD], pack=None)
    assert seen.rows == () and [facts.cell for facts in seen.cells] == [Cell("m", "v")]
    assert seen.cells[0].flagged == ("p1",) and seen.judged and seen.pack_id is None


def test_cells_stand_in_the_order_of_the_manifest_then_by_name() -> None:
    lines = [answer(model=model, variant=variant) for model, variant in ("zv", "mw", "mv", "av", "nw")]
    manifest = "models: [n, m]\nvariants: [w, v]\n"
    seen = view(lines, reports=[report("v", model="only reported")], manifest=manifest)
    assert [tuple(facts.cell) for facts in seen.cells] == [
        ("n", "w"), ("m", "w"), ("m", "v"), ("a", "v"), ("only reported", "v"), ("z", "v"),
    ]  # fmt: skip
    assert [facts.expected for facts in seen.cells] == [1, 1, 1, 1, 0, 1]


def test_each_cell_counts_its_own() -> None:
    lines = [answer(p, variant=v) for v in "vw" for p in PROMPTS]
    judged = [verdict("p1", 5), verdict("p2", 1, red_flag=True), verdict("p1", 2, variant="w"),
              verdict("p2", None, variant="w")]  # fmt: skip
    first, second = view(lines, judged).cells
    assert (first.tally.histogram[1:6], first.tally.unscored, first.flagged) == ([1, 0, 0, 0, 1], 0, ("p2",))
    assert (second.tally.histogram[1:6], second.tally.unscored, second.flagged) == ([0, 1, 0, 0, 0], 1, ())


def test_flags_stand_in_the_order_of_the_answers_each_prompt_once() -> None:
    lines = [answer(p, repeat=r) for r in (0, 1) for p in PROMPTS]
    judged = [verdict(p, 3, repeat=r, red_flag=True) for p, r in (("p3", 0), ("p1", 1), ("p3", 1), ("p1", 0))]
    stray = [event("stray", 3, red_flag=True)]
    assert view(lines, judged, stray).flagged == {Cell("m", "v"): ("p1", "p3", "stray")}
    assert view(lines, FOURS).flagged == {}


def test_what_is_judged_and_by_whom() -> None:
    assert not view(ANSWERS).judged and view(ANSWERS).judge_model is None
    assert view(ANSWERS, events=[start(3)]).judge_model == "j" and not view(ANSWERS, events=[start(3)]).judged
    assert view(events=[event("p1")]).judged
    assert view(reports=[GOOD]).judged and view(reports=[GOOD]).judge_model == "j"
    assert view([], [verdict("p1", judge_model="full")], [start(1)], [GOOD]).judge_model == "full"


def test_keys_that_no_answer_and_no_pack_knows_count_and_stand_last() -> None:
    seen = view(ANSWERS, [verdict("x", 5)], [start(2), event("y", 1), event("p1", 3), done(2, 2), event("z", None)])
    assert (seen.judge.done, seen.judge.total) == (4, 4)
    assert [seen.keys.key(number).prompt_id for number in seen.keys.unanswered()] == ["x", "y", "z"]
    assert [seen.keys.stray_place(number) for number in seen.keys.unanswered()] == [0, 1, 2]
    assert [seen.keys.key(number).prompt_id for number in seen.keys.in_order()] == [*PROMPTS, "x", "y", "z"]


VERDICTS = [verdict("p1", 4), verdict("p2", None), verdict("p3", 2, red_flag=True)]


def sha(judgements: Lines = VERDICTS, reports: Lines = (GOOD,), **more: Any) -> str:
    return view(more.pop("answers", ANSWERS), judgements, more.pop("events", ()), reports, **more).inputs_sha


SAME: dict[str, Callable[[], str]] = {
    "another order": lambda: sha(reversed(VERDICTS)),
    "other times": lambda: sha([{**line, "ts": 99.0} for line in VERDICTS]),
    "other words": lambda: sha([{**line, "rationale": "x", "i": 7, "judge_model": "x"} for line in VERDICTS]),
    "an earlier line of the same key": lambda: sha([verdict("p1", 1), *VERDICTS]),
    "the report's time": lambda: sha(reports=[{**GOOD, "ts": 5.0}]),
    "an earlier report": lambda: sha(reports=[report(hilfreich=1), GOOD]),
    "an unknown field": lambda: sha(reports=[{**GOOD, "unknown": 1}]),
    "no answers": lambda: sha(answers=[]),
    "other answers": lambda: sha(answers=[answer("p1", "another text")]),
    "the same from the events": lambda: sha([], events=[{**line, "event": "verdict"} for line in VERDICTS]),
    "older events beside": lambda: sha(events=[start(9), event("p1", 1), done(9, 1)]),
}
OTHER: dict[str, Callable[[], str]] = {
    "a score": lambda: sha([{**VERDICTS[0], "score": 5}, *VERDICTS[1:]]),
    "a flag": lambda: sha([{**VERDICTS[0], "red_flag": True}, *VERDICTS[1:]]),
    "a flag that is not known": lambda: sha([{**VERDICTS[0], "red_flag": None}, *VERDICTS[1:]]),
    "unscored now": lambda: sha([verdict("p1", None), *VERDICTS[1:]]),
    "another repeat": lambda: sha([verdict("p1", 4, repeat=1), *VERDICTS[1:]]),
    "one less": lambda: sha(VERDICTS[1:]),
    "a later line": lambda: sha([*VERDICTS, verdict("p1", 5)]),
    "a key that only the events have": lambda: sha(events=[event("new", 3)]),
    "a report's raw reply": lambda: sha(reports=[{**GOOD, "raw": "x"}]),
    "no report": lambda: sha(reports=()),
    "a report's score": lambda: sha(reports=[report(hilfreich=4, sicherheit=3, klarheit=4)]),
    "a report's gap": lambda: sha(reports=[report(hilfreich=4, sicherheit=3, klarheit=None)]),
    "one report more": lambda: sha(reports=[GOOD, report("w", hilfreich=1)]),
    "another pack": lambda: sha(sha="another pack"),
    "no pack": lambda: sha(sha=None),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_does_not_make_a_scorecard_old(change: Callable[[], str]) -> None:
    assert change() == sha()


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_what_makes_a_scorecard_old(change: Callable[[], str]) -> None:
    assert change() != sha()


LINES = st.lists(
    st.tuples(st.sampled_from(PROMPTS), st.none() | st.integers(1, 5), st.none() | st.booleans()).map(
        lambda row: verdict(row[0], row[1], red_flag=row[2])
    ),
    max_size=8,
)


@given(LINES, st.randoms(use_true_random=False))
def test_the_sha_is_that_of_the_winning_verdicts_in_any_order(lines: list[dict[str, Any]], random: Any) -> None:
    winners = list({line["prompt_id"]: line for line in lines}.values())
    random.shuffle(winners)
    assert sha(lines) == sha(winners)


def test_only_the_first_problems_are_described() -> None:
    problems = Problems()
    for line in range(1, KEPT_PROBLEMS + 100):
        problems.add(line, "broken")
    assert problems.count == KEPT_PROBLEMS + 99
    assert problems.first == [(line, "broken") for line in range(1, KEPT_PROBLEMS + 1)]
