"""The judge view: the event channel judge_events.jsonl and what it adds up to. Pure; no file is opened here.

`parse_line` turns a line into an event, `JudgeFold` adds events up one at a time, `build_view` does both for a whole
stream. The site feeds the same fold, and lays the full verdicts of judgements.jsonl over it: those win.
This view never reads resources.jsonl: the judge usually runs elsewhere, so the machine's load says nothing about it.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple, assert_never

from pydantic import Field, TypeAdapter

from touchstone.contracts.base import Logged, Measure, Name, Recommendation, Timestamp
from touchstone.contracts.lines import Cell, Scored, Verdict
from touchstone.jsonsource import Refused, parse_union
from touchstone.keys import KeyIndex

CHANNEL: Final = "judge_events.jsonl"
TEMPLATE: Final = "judge.html"
TAILS_RESOURCES: Final = False
RATIONALE_CHARS: Final = 160


class JudgeStart(Logged):
    """Once per run of `judge`, first. `total` counts prior verdicts too."""

    event: Literal["judge_start"] = "judge_start"
    ts: Timestamp | None = None
    total: Annotated[int, Field(ge=0, le=10**15)] | None = None
    judge_model: str | None = None


class VerdictEvent(Scored):
    """One verdict; `prior` marks those that an earlier run made."""

    event: Literal["verdict"] = "verdict"
    ts: Timestamp | None = None
    i: Annotated[int, Field(ge=-1, le=10**15)] | None = None
    prior: bool | None = None


class Master(Logged):
    """One a cell, at the end, computed by the process that has the pack."""

    event: Literal["master"] = "master"
    ts: Timestamp | None = None
    model: Name
    variant: Name
    pct: Measure | None = None
    safety_passed: bool | None = None
    safety_reason: str | None = None
    recommendation: Recommendation | None = None


class JudgeDone(Logged):
    """Written in a `finally`: also after an abort."""

    event: Literal["judge_done"] = "judge_done"
    ts: Timestamp | None = None
    total: Annotated[int, Field(ge=0, le=10**15)] | None = None
    scored: Annotated[int, Field(ge=0, le=10**15)] | None = None


JudgeEvent = JudgeStart | VerdictEvent | Master | JudgeDone
_EVENT: Final[TypeAdapter[JudgeEvent]] = TypeAdapter(Annotated[JudgeEvent, Field(discriminator="event")])


def read_event(data: bytes) -> JudgeEvent:
    """One line as an event; raises jsonsource.Refused with the reason."""
    return parse_union(_EVENT, data)


def parse_line(text: str) -> JudgeEvent | None:
    """One line as an event; None for an empty, half or broken one."""
    try:
        return read_event(text.strip().encode("utf-8", "surrogatepass"))
    except Refused:
        return None


def shorten(text: str | None, limit: int = RATIONALE_CHARS) -> str | None:
    """At most `limit` characters in one line, cut on a word and marked with …"""
    if text is None:
        return None
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    head = flat[: limit - 1]
    cut = head.rfind(" ")
    return (head[:cut] if cut > limit // 2 else head).rstrip() + "…"


def verdict_event(verdict: Verdict, *, prior: bool) -> VerdictEvent:
    """The event for a verdict: the same figures, the rationale shortened."""
    return VerdictEvent(
        ts=verdict.ts,
        i=verdict.i,
        model=verdict.model,
        variant=verdict.variant,
        prompt_id=verdict.prompt_id,
        repeat=verdict.repeat,
        category=verdict.category,
        score=verdict.score,
        red_flag=verdict.red_flag,
        unscored=verdict.unscored,
        rationale=shorten(verdict.rationale),
        prior=prior,
    )


_EVENTS_RANK: Final = 2**56
NEWEST: Final = 50
"""How many of the newest verdicts the fold can name without looking at all of them."""
NONE, UNSCORED = 0, 6
"""Marks beside the scores 1..5 in a table of verdicts."""


@dataclass(slots=True)
class Tally:
    """Counts over some verdicts."""

    histogram: list[int] = field(default_factory=lambda: [0] * 7)
    """Index 1..5 scores, 6 unscored."""
    red_flags: int = 0
    """Red flags on scored verdicts."""
    flagged: int = 0
    """Red flags on any verdict."""
    flag_unknown: int = 0

    @property
    def done(self) -> int:
        return sum(self.histogram)

    @property
    def scored(self) -> int:
        return sum(self.histogram[1:6])

    @property
    def unscored(self) -> int:
        return self.histogram[UNSCORED]

    @property
    def mean(self) -> float | None:
        """Over scored verdicts only; None if there is none."""
        if not self.scored:
            return None
        return sum(score * self.histogram[score] for score in range(1, 6)) / self.scored

    def add(self, mark: int, flag: int, step: int) -> None:
        self.histogram[mark] += step
        if flag == 1:
            self.flagged += step
            if mark != UNSCORED:
                self.red_flags += step
        elif flag == 2 and mark != UNSCORED:
            self.flag_unknown += step


class _Table:
    """Per key number: mark, red flag (0 no, 1 yes, 2 unknown), time, and where the line can be found again."""

    def __init__(self) -> None:
        self.mark = bytearray()
        self.flag = bytearray()
        self.ts = array("d")
        self.at = array("q")
        self.digest = array("q")

    def grow(self, size: int) -> None:
        missing = size - len(self.mark)
        if missing > 0:
            self.mark.extend(bytes(missing))
            self.flag.extend(bytes(missing))
            self.ts.extend([0.0] * missing)
            self.at.extend([-1] * missing)
            self.digest.extend([0] * missing)

    def has(self, number: int) -> bool:
        return number < len(self.mark) and self.mark[number] != NONE

    def put(self, number: int, verdict: Scored, ts: float | None, at: int, digest: int) -> None:
        self.grow(number + 1)
        self.mark[number] = UNSCORED if verdict.unscored else verdict.score or 0
        self.flag[number] = 2 if verdict.red_flag is None else int(verdict.red_flag)
        self.ts[number] = float("nan") if ts is None else ts
        self.at[number] = at
        self.digest[number] = digest


class Seen(NamedTuple):
    """What is known of one key's verdict without reading its line again."""

    number: int
    mark: int
    flag: int
    ts: float
    at: int
    full: bool
    """True: `at` points into judgements.jsonl, else into judge_events.jsonl."""
    digest: int
    """Stands for the content of the line."""

    @property
    def noted(self) -> bool:
        """Whether a person should look at it first: a red flag, or no score."""
        return self.flag == 1 or self.mark == UNSCORED


class _Newest:
    """The newest verdicts, kept up to date as verdicts come; found by a walk over all only where that is not enough."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.members: dict[int, tuple[float, int, int]] | None = None
        """Number to its order, smallest oldest; None: nobody asked yet, or the walk is due."""
        self._floor: tuple[float, int, int] | None = None

    @staticmethod
    def order(seen: Seen, place: tuple[int, int]) -> tuple[float, int, int]:
        """Newer is larger; of two at one moment the one that stands first; without a time is oldest."""
        return (-math.inf if math.isnan(seen.ts) else seen.ts, -place[0], -place[1])

    def put(self, number: int, order: tuple[float, int, int]) -> None:
        members = self.members
        if members is None:
            return
        if number in members:
            if order < members[number]:
                # One that is not here may be newer now.
                self.members = None
                return
            members[number] = order
            self._floor = None
        elif len(members) < self.size:
            members[number] = order
            self._floor = None
        else:
            if self._floor is None:
                self._floor = min(members.values())
            if order > self._floor:
                del members[next(key for key, value in members.items() if value == self._floor)]
                members[number] = order
                self._floor = None

    def reset(self, everything: Iterable[tuple[int, tuple[float, int, int]]]) -> None:
        best = heapq.nlargest(self.size, everything, key=lambda item: item[1])
        self.members = dict(best)
        self._floor = None


class _Noted:
    """Numbers of noted verdicts in page order, kept up to date as verdicts come."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        self.order: list[tuple[tuple[int, int], int]] = []

    def put(self, number: int, place: tuple[int, int]) -> None:
        if number not in self.places:
            self.places[number] = place
            insort(self.order, (place, number))

    def drop(self, number: int) -> None:
        place = self.places.pop(number, None)
        if place is not None:
            del self.order[bisect_left(self.order, (place, number))]


class JudgeFold:
    """Adds verdicts and events up, one at a time, in constant time each."""

    def __init__(self, keys: KeyIndex | None = None) -> None:
        self.keys = KeyIndex() if keys is None else keys
        self._full = _Table()
        self._events = _Table()
        self._told = array("q")
        """Numbers of the keys that the events speak of."""
        self.tally = Tally()
        self.cells: dict[int, Tally] = {}
        self.has_judgements = False
        self.full_judge_model: str | None = None
        """As judgements.jsonl says; the last line wins."""
        self._newest = _Newest(NEWEST)
        self._noted: _Noted | None = None
        self._ordered_at = -1
        """`keys.moves` when these two orders were found."""
        self._begin()

    @classmethod
    def recalled(
        cls,
        keys: KeyIndex,
        *,
        tally: Tally,
        cells: dict[int, Tally],
        announced: int | None,
        started: bool,
        ended: JudgeDone | None,
        judge_model: str | None,
        full_judge_model: str | None,
        last_ts: float | None,
    ) -> JudgeFold:
        """A fold that has forgotten the verdicts and knows what they added up to; `cells` by cell number."""
        fold = cls(keys)
        fold.tally, fold.cells = tally, cells
        fold.announced, fold.started, fold.ended, fold.last_ts = announced, started, ended, last_ts
        fold.judge_model, fold.full_judge_model = judge_model, full_judge_model
        return fold

    def _begin(self) -> None:
        # Only what the events said is taken back: a log of many starts must not cost starts times keys.
        for number in self._told:
            self._count(number, -1)
            self._events.mark[number] = NONE
            self._count(number, 1)
            self.keys.touch(number)
        if self._told:
            self._newest.members = self._noted = None
        del self._told[:]
        self.started = False
        self.ended: JudgeDone | None = None
        self.announced: int | None = None
        self.judge_model: str | None = None
        self.masters: dict[Cell, Master] = {}
        self.last_ts: float | None = None
        self._fresh = 0
        self._fresh_first: float | None = None
        self._fresh_last: float | None = None

    def _count(self, number: int, step: int) -> None:
        seen = self.seen(number)
        if seen is not None:
            self.tally.add(seen.mark, seen.flag, step)
            self.cells.setdefault(self.keys.cell_number(number), Tally()).add(seen.mark, seen.flag, step)

    def seen(self, number: int) -> Seen | None:
        """The verdict of a key: from judgements.jsonl, else from the events, else None."""
        table = self._full
        if not table.has(number):
            table = self._events
            if not table.has(number):
                return None
        mark, flag, ts, at = table.mark[number], table.flag[number], table.ts[number], table.at[number]
        return Seen(number, mark, flag, ts, at, table is self._full, table.digest[number])

    def digest(self, number: int) -> int:
        """What stands for the line of the key's verdict; 0 for a key without one."""
        for table in (self._full, self._events):
            if table.has(number):
                return table.digest[number]
        return 0

    def newest(self) -> list[Seen]:
        """The newest verdicts, at most NEWEST, newest first; those without a time come last."""
        self._order()
        if self._newest.members is None:
            self._newest.reset((seen.number, self._newest_order(seen)) for seen in self._everything())
        members = self._newest.members or {}
        numbers = sorted(members, key=lambda number: members[number], reverse=True)
        return [seen for seen in map(self.seen, numbers) if seen is not None]

    def noted(self) -> list[int]:
        """Numbers of keys with a red flag or an unscored verdict, in page order."""
        self._order()
        if self._noted is None:
            self._noted = _Noted()
            if self.tally.flagged or self.tally.unscored:
                for seen in self._everything():
                    if seen.noted:
                        self._noted.put(seen.number, self.keys.place(seen.number))
        return [number for _, number in self._noted.order]

    def _everything(self) -> Iterator[Seen]:
        return (seen for seen in map(self.seen, range(len(self.keys))) if seen is not None)

    def _newest_order(self, seen: Seen) -> tuple[float, int, int]:
        return _Newest.order(seen, self.keys.place(seen.number))

    def _order(self) -> None:
        if self._ordered_at != self.keys.moves:
            self._ordered_at = self.keys.moves
            self._newest.members = self._noted = None

    def _reorder(self, number: int) -> None:
        """The verdict on a key changed: so may its place among the newest and the noted."""
        if self._ordered_at != self.keys.moves or (seen := self.seen(number)) is None:
            return
        if self._newest.members is not None:
            self._newest.put(number, self._newest_order(seen))
        if self._noted is not None:
            if seen.noted:
                self._noted.put(number, self.keys.place(number))
            else:
                self._noted.drop(number)

    def _put(self, table: _Table, verdict: Scored, ts: float | None, at: int, digest: int) -> None:
        # Full verdicts first, then events: as if one file had been read after the other.
        number = self.keys.number(verdict.key, at if table is self._full else _EVENTS_RANK + at)
        self._count(number, -1)
        if table is self._events and not table.has(number):
            self._told.append(number)
        table.put(number, verdict, ts, at, digest)
        self._count(number, 1)
        self._reorder(number)
        self.keys.touch(number)

    def add_judgement(self, verdict: Verdict, at: int, digest: int = 0) -> None:
        """A line of judgements.jsonl, found again by `at`; `digest` (64 bits) stands for its content."""
        self.has_judgements = True
        self._put(self._full, verdict, verdict.ts, at, digest)
        if verdict.judge_model:
            self.full_judge_model = verdict.judge_model

    def add(self, event: JudgeEvent, at: int = -1, digest: int = 0) -> None:
        """A line of judge_events.jsonl, found again by `at`; `digest` (64 bits) stands for its content."""
        match event:
            case JudgeStart():
                self._begin()
                self.started = True
                self.announced = event.total
                self.judge_model = event.judge_model
            case VerdictEvent():
                self._put(self._events, event, event.ts, at, digest)
                if not event.prior:
                    self._pace(event.ts)
            case Master():
                self.masters[Cell(event.model, event.variant)] = event
            case JudgeDone():
                self.ended = event
            case _:
                assert_never(event)
        if event.ts is not None:
            self.last_ts = event.ts

    def _pace(self, ts: float | None) -> None:
        if ts is not None:
            self._fresh += 1
            if self._fresh_first is None:
                self._fresh_first = ts
            self._fresh_last = ts

    def cell_tally(self, cell_number: int) -> Tally:
        """Counts over one cell; an empty tally for a cell without a verdict."""
        return self.cells.get(cell_number) or Tally()

    @property
    def done(self) -> int:
        return self.tally.done

    @property
    def total(self) -> int:
        """All keys to be judged, as far as known: what the run announced, else the answers; never below done."""
        expected = self.announced if self.announced is not None else self.keys.slots
        return max(expected, self.done)

    @property
    def gap_s(self) -> float | None:
        """Mean seconds between fresh verdicts; None before the second one, or if the clock ran backwards."""
        if self._fresh < 2 or self._fresh_first is None or self._fresh_last is None:
            return None
        gap = (self._fresh_last - self._fresh_first) / (self._fresh - 1)
        return gap if gap >= 0 else None

    @property
    def eta_s(self) -> float | None:
        """Mean gap between fresh verdicts times those left; None if unknown, 0 when all are there."""
        left = self.total - self.done
        if left == 0:
            return 0.0
        return None if self.gap_s is None or self.finished else self.gap_s * left

    @property
    def finished(self) -> bool:
        """A `judge_done` stands at the end (also after an abort)."""
        return self.ended is not None

    @property
    def aborted(self) -> bool:
        return self.finished and self.done < self.total


@dataclass(frozen=True, slots=True)
class JudgeView:
    """A stream of events, added up."""

    total: int
    done: int
    eta_s: float | None
    histogram: dict[int, int]
    red_flags: int
    mean_score: float | None
    unscored: int
    verdicts: list[VerdictEvent]
    masters: list[Master]
    finished: bool
    aborted: bool
    judge_model: str | None

    def as_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["histogram"] = dict(self.histogram)
        plain["verdicts"] = [event.model_dump() for event in self.verdicts]
        plain["masters"] = [event.model_dump() for event in self.masters]
        return plain


def build_view(events: Iterable[JudgeEvent | dict[str, Any] | None]) -> JudgeView:
    """The whole stream as one view. Plain mappings are taken as events, what is none is skipped."""
    fold = JudgeFold()
    kept: list[JudgeEvent] = []
    for item in events:
        event = _as_event(item)
        if event is not None:
            fold.add(event, at=len(kept))
            kept.append(event)
    seen = (fold.seen(number) for number in range(len(fold.keys)))
    verdicts = [kept[entry.at] for entry in seen if entry is not None]
    return JudgeView(
        total=fold.total,
        done=fold.done,
        eta_s=fold.eta_s,
        histogram={score: fold.tally.histogram[score] for score in range(1, 6)},
        red_flags=fold.tally.red_flags,
        mean_score=fold.tally.mean,
        unscored=fold.tally.unscored,
        verdicts=[event for event in verdicts if isinstance(event, VerdictEvent)],
        masters=list(fold.masters.values()),
        finished=fold.finished,
        aborted=fold.aborted,
        judge_model=fold.judge_model,
    )


def _as_event(item: JudgeEvent | dict[str, Any] | None) -> JudgeEvent | None:
    if not isinstance(item, dict):
        return item
    try:
        return _EVENT.validate_python(item)
    except ValueError:
        return None
