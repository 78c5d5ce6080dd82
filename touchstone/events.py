"""The eval view: the event channel events.jsonl, the answers, and what they add up to. Pure; no file is opened here.

Answers are the record (fsynced, complete); the events add what only the running eval knows: how many answers are to
come, and whether it ended. `EvalFold` adds both up one at a time, `build_view` folds a whole event stream.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal, assert_never

from pydantic import Field, TypeAdapter

from touchstone.contracts.base import Logged, Timestamp
from touchstone.contracts.lines import Answer, Keyed, Metrics, Status
from touchstone.jsonsource import Refused, parse_union
from touchstone.keys import KeyIndex
from touchstone.statistics import median, quantile

CHANNEL: Final = "events.jsonl"
TEMPLATE: Final = "eval.html"
TAILS_RESOURCES: Final = True


class EvalStart(Logged):
    """Once per run of `eval`, first. `total` counts answers of an earlier run too."""

    event: Literal["eval_start"] = "eval_start"
    ts: Timestamp | None = None
    total: Annotated[int, Field(ge=0, le=10**15)] | None = None
    models: Annotated[tuple[str, ...], Field(strict=False)] = ()
    variants: Annotated[tuple[str, ...], Field(strict=False)] = ()


class AnswerEvent(Keyed):
    """One answer: how it ended and what it cost, without its text."""

    event: Literal["answer"] = "answer"
    ts: Timestamp | None = None
    i: Annotated[int, Field(ge=-1, le=10**15)] | None = None
    status: Status | None = None
    error: str | None = None
    metrics: Metrics | None = None
    prior: bool | None = None


class EvalDone(Logged):
    """Written in a `finally`: also after an abort."""

    event: Literal["eval_done"] = "eval_done"
    ts: Timestamp | None = None
    total: Annotated[int, Field(ge=0, le=10**15)] | None = None
    answered: Annotated[int, Field(ge=0, le=10**15)] | None = None


EvalEvent = EvalStart | AnswerEvent | EvalDone
_EVENT: Final[TypeAdapter[EvalEvent]] = TypeAdapter(Annotated[EvalEvent, Field(discriminator="event")])


def read_event(data: bytes) -> EvalEvent:
    """One line as an event; raises jsonsource.Refused with the reason."""
    return parse_union(_EVENT, data)


def parse_line(text: str) -> EvalEvent | None:
    """One line as an event; None for an empty, half or broken one."""
    try:
        return read_event(text.strip().encode("utf-8", "surrogatepass"))
    except Refused:
        return None


def answer_event(answer: Answer, i: int, *, prior: bool) -> AnswerEvent:
    """The event for line `i` of answers.jsonl."""
    return AnswerEvent(
        ts=answer.ts,
        i=i,
        model=answer.model,
        variant=answer.variant,
        prompt_id=answer.prompt_id,
        repeat=answer.repeat,
        category=answer.category,
        status=answer.status,
        error=answer.error,
        metrics=answer.metrics,
        prior=prior,
    )


_STATUS: Final[tuple[Status | None, ...]] = (None, "ok", "truncated", "empty", "error")
_UNSEEN: Final = 255
_MEASURES: Final = ("ttft_s", "total_s", "prompt_tps", "gen_tps", "load_s")


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """What the answers of one model cost. Seconds and tokens/s; None where nothing was measured."""

    model: str
    answers: int
    measured: int
    latency_p50: float | None
    latency_p95: float | None
    ttft_p50: float | None
    ttft_p95: float | None
    prompt_tps: float | None
    gen_tps: float | None
    load_s: float | None
    truncated: int
    empty: int
    errors: int


class EvalFold:
    """Adds answers and eval events up. Per key the last line wins."""

    def __init__(self, keys: KeyIndex | None = None) -> None:
        self.keys = KeyIndex() if keys is None else keys
        self._status = bytearray()
        self._at = array("q")
        self._digest = array("q")
        self._per_cell: dict[int, int] = {}
        self._cell_sums: dict[int, int] = {}
        self._speeds: list[ModelSpeed] | None = None
        self._measures = {name: array("d") for name in _MEASURES}
        self.categories: dict[str, str] = {}
        """prompt id to category, as the answers say."""
        self.done = 0
        """Keys with an answer."""
        self.sum = 0
        """Stands for all answers together, in whatever order they were read."""
        self.last_ts: float | None = None
        self.started = False
        self.ended: EvalDone | None = None
        self.announced: int | None = None
        self._fresh = 0
        self._fresh_first: float | None = None
        self._fresh_last: float | None = None

    @classmethod
    def recalled(
        cls,
        keys: KeyIndex,
        *,
        answers: dict[int, int],
        sums: dict[int, int],
        speeds: Iterable[ModelSpeed],
        announced: int | None,
        started: bool,
        ended: EvalDone | None,
        last_ts: float | None,
    ) -> EvalFold:
        """A fold that has forgotten the answers and knows what they added up to; `answers` counts them by cell."""
        fold = cls(keys)
        fold._cell_sums = sums
        fold._per_cell, fold.done, fold._speeds = answers, sum(answers.values()), list(speeds)
        fold.announced, fold.started, fold.ended, fold.last_ts = announced, started, ended, last_ts
        return fold

    def add_answer(self, answer: Answer | AnswerEvent, slot: int, at: int, digest: int = 0) -> None:
        """Line `slot` of answers.jsonl, found again by `at`; `digest` (64 bits) stands for its content."""
        number = self.keys.answered(answer.key, slot)
        missing = number + 1 - len(self._status)
        if missing > 0:
            self._status.extend([_UNSEEN] * missing)
            self._at.extend([-1] * missing)
            self._digest.extend([0] * missing)
            for column in self._measures.values():
                column.extend([math.nan] * missing)
        if self._status[number] == _UNSEEN:
            cell = self.keys.cell_number(number)
            self._per_cell[cell] = self._per_cell.get(cell, 0) + 1
            self.done += 1
        self._status[number] = _STATUS.index(answer.status)
        slot_of = self.keys.slot(number)
        self.sum ^= hash((slot_of, self._digest[number])) ^ hash((slot_of, digest))
        cell = self.keys.cell_number(number)
        self._cell_sums[cell] = self._cell_sums.get(cell, 0) ^ hash((self._digest[number],)) ^ hash((digest,))
        self._at[number] = at
        self._digest[number] = digest
        self.keys.touch(number)
        for name, column in self._measures.items():
            value = None if answer.metrics is None else getattr(answer.metrics, name)
            column[number] = math.nan if value is None else value
        if answer.category:
            self.categories[answer.prompt_id] = answer.category
        if answer.ts is not None:
            self.last_ts = answer.ts

    def add(self, event: EvalEvent) -> None:
        """A line of events.jsonl. Its answers are in answers.jsonl already; here they only set the pace."""
        match event:
            case EvalStart():
                self.started, self.ended, self.announced = True, None, event.total
                self._fresh, self._fresh_first, self._fresh_last = 0, None, None
            case EvalDone():
                self.ended = event
            case AnswerEvent():
                if event.ts is not None and not event.prior:
                    self._fresh += 1
                    self._fresh_first = event.ts if self._fresh_first is None else self._fresh_first
                    self._fresh_last = event.ts
            case _:
                assert_never(event)

    def at(self, number: int) -> int | None:
        """Where the key's answer can be found again; None for a key without an answer."""
        if number >= len(self._at) or self._status[number] == _UNSEEN:
            return None
        return self._at[number]

    def status(self, number: int) -> Status | None:
        """The status of the key's answer; None where there is no answer or it does not say."""
        if number >= len(self._status) or self._status[number] == _UNSEEN:
            return None
        return _STATUS[self._status[number]]

    def latency(self, number: int) -> float | None:
        """Seconds the answer took; None if not measured."""
        value = self._measures["total_s"][number] if number < len(self._status) else math.nan
        return value if math.isfinite(value) else None

    @property
    def total(self) -> int:
        return max(self.announced or 0, self.done)

    @property
    def gap_s(self) -> float | None:
        """Mean seconds between the answers of the latest run; None before its second one, or with a clock set back."""
        if self._fresh < 2 or self._fresh_first is None or self._fresh_last is None:
            return None
        gap = (self._fresh_last - self._fresh_first) / (self._fresh - 1)
        return gap if gap >= 0 else None

    @property
    def eta_s(self) -> float | None:
        """That gap times the answers that are still to come; None if unknown, 0 when all are there."""
        left = self.total - self.done
        if left == 0:
            return 0.0
        return None if self.gap_s is None or self.finished else self.gap_s * left

    @property
    def finished(self) -> bool:
        return self.ended is not None

    @property
    def aborted(self) -> bool:
        return self.finished and self.done < self.total

    def answers_per_cell(self) -> dict[int, int]:
        """Cell number to the count of its answers."""
        return dict(self._per_cell)

    def cell_sum(self, cell: int) -> int:
        """Stands for all answers of a cell (its number), in whatever order: equal where two runs hold the same."""
        return self._cell_sums.get(cell, 0)

    def digest(self, number: int) -> int:
        """Stands for the content of the key's answer line; 0 for a key without an answer."""
        return self._digest[number] if number < len(self._digest) else 0

    def speeds(self) -> list[ModelSpeed]:
        """One entry a model, by first appearance. Failed answers count as errors, not into the speed."""
        if self._speeds is not None:
            return self._speeds
        groups: dict[str, list[int]] = {}
        for number in self.keys.at_slots(0, self.keys.slots):
            if number < len(self._status) and self._status[number] != _UNSEEN:
                cell = self.keys.cells[self.keys.cell_number(number)]
                groups.setdefault(cell.model, []).append(number)
        return [self._speed(model, numbers) for model, numbers in groups.items()]

    def _speed(self, model: str, numbers: list[int]) -> ModelSpeed:
        failed = _STATUS.index("error")
        good = [number for number in numbers if self._status[number] != failed]
        column = {name: [values[number] for number in good] for name, values in self._measures.items()}
        count = {name: sum(self._status[n] == _STATUS.index(name) for n in numbers) for name in _STATUS[1:]}
        return ModelSpeed(
            model=model,
            answers=len(numbers),
            measured=sum(math.isfinite(value) for value in column["total_s"]),
            latency_p50=median(column["total_s"]),
            latency_p95=quantile(column["total_s"], 0.95),
            ttft_p50=median(column["ttft_s"]),
            ttft_p95=quantile(column["ttft_s"], 0.95),
            prompt_tps=median(column["prompt_tps"]),
            gen_tps=median(column["gen_tps"]),
            load_s=median(column["load_s"]),
            truncated=count["truncated"],
            empty=count["empty"],
            errors=count["error"],
        )


@dataclass(frozen=True, slots=True)
class EvalView:
    """A stream of eval events, added up."""

    total: int
    done: int
    eta_s: float | None
    finished: bool
    aborted: bool
    models: list[ModelSpeed]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def build_view(events: Iterable[EvalEvent | dict[str, Any] | None]) -> EvalView:
    """The whole stream as one view. Plain mappings are taken as events, what is none is skipped."""
    fold = EvalFold()
    for index, item in enumerate(events):
        event = _as_event(item)
        if isinstance(event, AnswerEvent):
            fold.add_answer(event, slot=index, at=index)
        if event is not None:
            fold.add(event)
    return EvalView(fold.total, fold.done, fold.eta_s, fold.finished, fold.aborted, fold.speeds())


def _as_event(item: EvalEvent | dict[str, Any] | None) -> EvalEvent | None:
    if not isinstance(item, dict):
        return item
    try:
        return _EVENT.validate_python(item)
    except ValueError:
        return None
