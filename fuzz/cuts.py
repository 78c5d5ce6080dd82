"""A log in pieces: the same lines, and the same figures, as in one piece."""

from __future__ import annotations

from fuzz.pieces import Choices, split
from touchstone import judge_events
from touchstone.contracts.lines import Verdict
from touchstone.jsonsource import Refused, parse_model
from touchstone.judge_events import JudgeFold
from touchstone.store.lines import Line, LineCutter

LIMIT = 4096
"""Bytes of the longest line here, so that long ones are met."""


def check(data: bytes) -> None:
    choices = Choices(data)
    cuts = [choices.number(65536) for _ in range(choices.number(16))]
    log = choices.rest()
    whole = list(LineCutter(limit=LIMIT).feed(log))
    cutter = LineCutter(limit=LIMIT)
    lines: list[Line] = []
    for piece in split(log, cuts):
        lines += cutter.feed(piece)
        assert cutter.pending <= len(log)
    assert lines == whole
    assert b"".join(b"%s\n" % line.data for line in whole if line.data is not None) in (
        log,
        log[: cutter.offset],
    ) or any(line.data is None for line in whole)
    one = JudgeFold()
    for line in whole:
        add(one, line)
    again = JudgeFold()
    for line in lines:
        add(again, line)
        assert 0 <= again.done <= again.total
    assert figures(one) == figures(again)


def add(fold: JudgeFold, line: Line) -> None:
    """The line as an event, else as a verdict, else not at all."""
    data = line.data or b""
    try:
        fold.add(judge_events.read_event(data), line.offset)
    except Refused:
        try:
            fold.add_judgement(parse_model(Verdict, data), line.offset)
        except Refused:
            return


def figures(fold: JudgeFold) -> tuple[object, ...]:
    tally = fold.tally
    seen = [fold.seen(number) for number in range(len(fold.keys))]
    assert sum(entry is not None for entry in seen) == fold.done == sum(t.done for t in fold.cells.values())
    assert tally.mean is None or 1 <= tally.mean <= 5
    assert fold.eta_s is None or fold.eta_s >= 0
    return (
        tally.histogram,
        tally.red_flags,
        tally.unscored,
        fold.total,
        fold.eta_s,
        fold.finished,
        fold.aborted,
        repr(seen),
        [fold.keys.key(number) for number in fold.keys.in_order()],
    )
