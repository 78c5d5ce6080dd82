"""Judging: one verdict an answer, then one report a cell. The loop knows no file, no socket and no clock.

`plan` says what is left to do, given what is there; `Judging.run` does it, as many questions at once as there are
slots, and hands each result to its callbacks the moment it has it. Asking, writing and the time come in as arguments.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from touchstone.chat.stop import Stopped, StopSign
from touchstone.chat.wire import ChatFailure, ChatRequest, Reply, cut_by_context, note_of, status_of
from touchstone.contracts.lines import Answer, Cell, Key, RepeatedVerdict, Report, Verdict
from touchstone.contracts.pack import Pack
from touchstone.errors import BundleError, EndpointError
from touchstone.jsonsource import Refused, clean_text
from touchstone.judge_prompts import ReportReply, read_report, read_verdict
from touchstone.judge_questions import DEFAULT_CONTEXT, Questions

RAW_CHARS: Final = 20_000
"""How much of a reply that could not be read is kept."""
Ask = Callable[[ChatRequest], Awaitable[Reply]]
Job = Callable[[], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Numbered:
    """An answer and its position in answers.jsonl."""

    i: int
    answer: Answer


@dataclass(frozen=True)
class Plan:
    """What an earlier run left to do."""

    answers: tuple[Numbered, ...]
    """The winning answer of each key, by the position of the key's first line."""
    prior: dict[Key, Verdict]
    """Verdicts that stand."""
    todo: tuple[Numbered, ...]
    """Answers without a verdict that stands."""
    reports: dict[Cell, Report]
    """Reports that stand."""
    cells: dict[Cell, tuple[Numbered, ...]]
    """All cells, by first appearance."""
    reports_wanted: bool = True

    @property
    def standing(self) -> list[Verdict]:
        """Verdicts that stand, in the order of the answers."""
        return [self.prior[item.answer.key] for item in self.answers if item.answer.key in self.prior]

    @property
    def report_todo(self) -> list[Cell]:
        return [cell for cell in self.cells if cell not in self.reports] if self.reports_wanted else []

    @property
    def total(self) -> int:
        return len(self.answers)


def plan(
    answers: Iterable[Numbered],
    verdicts: Mapping[Key, Verdict],
    reports: Mapping[Cell, Report],
    pack: Pack,
    *,
    reports_wanted: bool = True,
) -> Plan:
    """What is left to do. An unscored verdict that cost a call is asked for again, as is an incomplete report."""
    winning: dict[Key, Numbered] = {}
    for item in answers:
        first = winning.get(item.answer.key)
        winning[item.answer.key] = Numbered(item.i if first is None else first.i, item.answer)
    ordered = tuple(winning.values())
    prior = {
        item.answer.key: verdict
        for item in ordered
        if (verdict := verdicts.get(item.answer.key)) is not None and stands(verdict, item.answer)
    }
    cells: dict[Cell, list[Numbered]] = {}
    for item in ordered:
        cells.setdefault(item.answer.cell, []).append(item)
    frozen = {cell: tuple(items) for cell, items in cells.items()}
    return Plan(
        answers=ordered,
        prior=prior,
        todo=tuple(item for item in ordered if item.answer.key not in prior),
        reports={
            cell: report
            for cell, items in frozen.items()
            if (report := reports.get(cell)) is not None and _report_stands(report, items, pack)
        },
        cells=frozen,
        reports_wanted=reports_wanted,
    )


def stands(verdict: Verdict | None, answer: Answer) -> bool:
    """Whether there is a verdict that need not be asked for again."""
    if verdict is None or (verdict.answer_sha is not None and verdict.answer_sha != answer.sha):
        return False
    return not verdict.unscored or not answer.judgeable


def answers_sha(items: Sequence[Numbered]) -> str:
    """Identifies the answers that a report is about."""
    return hashlib.sha256("\n".join(sorted(item.answer.sha for item in items)).encode()).hexdigest()


def _report_stands(report: Report, items: Sequence[Numbered], pack: Pack) -> bool:
    if report.answers_sha is not None and report.answers_sha != answers_sha(items):
        return False
    complete = all(report.dim_scores.get(dimension.id) is not None for dimension in pack.dimensions)
    return complete or not any(item.answer.judgeable for item in items)


def refuse_other_judge(
    verdicts: Iterable[Verdict], reports: Iterable[Report], model: str, prompt_sha: str, bundle: str
) -> None:
    """Verdicts of another judge are never mixed with this one's. Raises BundleError with the two ways on."""
    judged: Iterable[Verdict | Report] = (*verdicts, *reports)
    for item in judged:
        other_model = item.judge_model is not None and item.judge_model != model
        other_prompt = item.prompt_sha is not None and item.prompt_sha != prompt_sha
        if other_model or other_prompt:
            what = f"by {item.judge_model}" if other_model else "with another judge prompt"
            raise BundleError(
                f"{bundle}: was judged {what}, now it would be {model}; add --into NAME to judge the same answers "
                "in a bundle beside it, or --restart to set the earlier judging aside and begin anew"
            )


@dataclass(frozen=True)
class Callbacks:
    """Where results go; a slot is free again once its result has been taken."""

    on_verdict: Callable[[Verdict], Awaitable[None]]
    on_report: Callable[[Report], Awaitable[None]]
    on_repeat: Callable[[RepeatedVerdict], Awaitable[None]]


async def in_slots(jobs: Iterator[Job], slots: int, sign: StopSign) -> None:
    """Do all jobs, `slots` at once, each begun as soon as a slot is free.

    Once the sign is set, or the endpoint turns out to be of no use, none is begun any more, and those under way are
    awaited. Then raises EndpointError, or Stopped if the sign kept a job from being done. Whatever else a job raises
    ends the others at once.
    """
    useless: list[EndpointError] = []
    left: list[Stopped] = []

    async def work() -> None:
        for job in jobs:
            try:
                if sign:
                    raise Stopped
                await job()
            except EndpointError as error:
                useless.append(error)
            except Stopped as stopped:
                left.append(stopped)
            if useless or left:
                return

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(slots):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None  # the first; the others met the same
    if useless:
        raise useless[0]
    if left:
        raise left[0]


class _NoUse(Exception):
    """A reply that came, but is not what was asked for. `str()` says why."""

    def __init__(self, why: str, reply: Reply) -> None:
        super().__init__(why)
        self.reply = reply


@dataclass(frozen=True)
class Judging:
    """One run of the judge over one bundle."""

    questions: Questions
    ask: Ask
    clock: Callable[[], float]
    """Seconds since the epoch."""
    callbacks: Callbacks
    context_tokens: int | None = None
    """What the judge's context holds; None if the server does not tell."""
    slots: int = 1
    """Questions under way at once."""
    sign: StopSign = field(default_factory=StopSign)

    async def run(self, plan: Plan) -> None:
        """Ask for everything that is left.

        Raises EndpointError if the judge cannot be used at all, Stopped if something is left because of the sign.
        """

        async def judge(item: Numbered) -> None:
            await self.callbacks.on_verdict(await self.verdict(item))

        async def look_at(cell: Cell) -> None:
            await self.callbacks.on_report(await self.report(cell, plan.cells[cell]))

        reports = plan.report_todo
        jobs = chain((partial(judge, item) for item in plan.todo), (partial(look_at, cell) for cell in reports))
        await in_slots(jobs, min(self.slots, len(plan.todo) + len(reports)), self.sign)

    async def repeat(self, rounds: Sequence[tuple[Numbered, int]]) -> None:
        """Judge these answers once more, each with the number of its repeat. Raises as `run` does."""

        async def judge(item: Numbered, number: int) -> None:
            verdict = await self.verdict(item)
            await self.callbacks.on_repeat(RepeatedVerdict(**verdict.model_dump(), round=number))

        jobs = (partial(judge, item, number) for item, number in rounds)
        await in_slots(jobs, min(self.slots, len(rounds)), self.sign)

    async def _reply(self, request: ChatRequest, read: Callable[[str], T], parts: int = 1) -> tuple[Reply, T]:
        """A reply and what was read from it, perhaps at the second try. Raises ChatFailure or _NoUse."""
        try:
            return await self._one_reply(request, read)
        except _NoUse as first:
            brief = self.questions.brief(request, parts)
            if brief is None:
                raise
            try:
                return await self._one_reply(brief, read)
            except _NoUse as second:
                reply = second.reply if _everything(second.reply).strip() else first.reply
                raise _NoUse(f"{first}; the second try: {second}", reply) from None
            except ChatFailure as failure:
                raise _NoUse(f"{first}; the second try: {failure}", first.reply) from None

    async def _one_reply(self, request: ChatRequest, read: Callable[[str], T]) -> tuple[Reply, T]:
        reply = await self.ask(request)
        try:
            return reply, read(_text_of(reply))
        except Refused as refused:
            raise _NoUse(_cause(reply, str(refused)), reply) from None

    # -- verdicts

    async def verdict(self, item: Numbered) -> Verdict:
        """The verdict on one answer; unscored, with the reason, where there is none."""
        answer = item.answer
        if not answer.judgeable:
            reason = answer.error or ("the model gave no answer" if answer.status != "error" else "the model failed")
            return self._unscored(item, f"no answer to judge: {reason}")
        try:
            reply, said = await self._reply(self.questions.verdict(answer), read_verdict)
        except ChatFailure as failure:
            return self._unscored(item, str(failure))
        except _NoUse as why:
            return self._unscored(item, str(why), why.reply)
        return self._line(item, reply).model_copy(
            update={
                "score": said.score,
                "red_flag": said.red_flag,
                "unscored": False,
                "rationale": said.rationale,
            }
        )

    def _line(self, item: Numbered, reply: Reply | None) -> Verdict:
        answer = item.answer
        return Verdict(
            ts=self.clock(),
            i=item.i,
            model=answer.model,
            variant=answer.variant,
            prompt_id=answer.prompt_id,
            repeat=answer.repeat,
            category=answer.category,
            score=0,
            red_flag=None,
            unscored=True,
            rationale=None,
            judge_model=self.questions.model,
            prompt_sha=self.questions.templates.sha,
            answer_sha=answer.sha,
            mode=None if reply is None else reply.mode,
            finish_reason=None if reply is None else reply.finish_reason,
        )

    def _unscored(self, item: Numbered, error: str, reply: Reply | None = None) -> Verdict:
        raw = None if reply is None else clean_text(_everything(reply))[:RAW_CHARS]
        return self._line(item, reply).model_copy(update={"error": error, "raw": raw})

    # -- reports

    async def report(self, cell: Cell, items: Sequence[Numbered]) -> Report:
        """The holistic report on one cell; null scores, with the reason, where there is none."""
        seen = [item.answer for item in items if item.answer.judgeable]
        if not seen:
            return self._empty(cell, items, 0, "no answer to look at")
        pack = self.questions.pack
        context = self.context_tokens or DEFAULT_CONTEXT
        failure: ChatFailure | None = None
        for _ in range(3):
            request, shown = self.questions.report(cell, seen, len(items), context)
            try:
                _, said = await self._reply(request, lambda text: read_report(text, pack), len(pack.dimensions))
            except ChatFailure as error:
                failure = error
                if error.kind != "context":
                    break
                # Our estimate of tokens was too hopeful: believe the server's size, and leave more room.
                context = int(min(context, error.n_ctx or context) * 0.6)
            except _NoUse as why:
                raw = clean_text(_everything(why.reply))[:RAW_CHARS]
                return self._empty(cell, items, shown, str(why)).model_copy(update={"raw": raw})
            else:
                return self._full(cell, items, shown, said)
        return self._empty(cell, items, 0, str(failure))

    def _full(self, cell: Cell, items: Sequence[Numbered], shown: int, said: ReportReply) -> Report:
        ids = [dimension.id for dimension in self.questions.pack.dimensions]
        got = said.dimensions
        rationales = {id_: clean_text(got[id_].rationale or "") for id_ in ids if id_ in got}
        return self._empty(cell, items, shown, None).model_copy(
            update={
                "dim_scores": {id_: got[id_].score if id_ in got else None for id_ in ids},
                "dim_rationales": rationales,
                "summary": None if said.summary is None else clean_text(said.summary),
            }
        )

    def _empty(self, cell: Cell, items: Sequence[Numbered], seen: int, error: str | None) -> Report:
        return Report(
            model=cell.model,
            variant=cell.variant,
            judge_model=self.questions.model,
            dim_scores={dimension.id: None for dimension in self.questions.pack.dimensions},
            dim_rationales={},
            summary=None,
            answers_seen=seen,
            answers_sha=answers_sha(items),
            prompt_sha=self.questions.templates.sha,
            error=error,
            ts=self.clock(),
        )


def _text_of(reply: Reply) -> str:
    """Where the JSON stands: in the answer, or, with some thinking models, in what they call reasoning.

    Thinking that was cut off holds at best a draft, which is no verdict.
    """
    if reply.text.strip() or reply.reasoning is None or reply.finish_reason == "length":
        return reply.text
    return reply.reasoning


def _everything(reply: Reply) -> str:
    return reply.text if reply.reasoning is None else f"{reply.reasoning}\n{reply.text}"


def _cause(reply: Reply, refused: str) -> str:
    """Why a reply is of no use: a cut-off one is not bad JSON, it is cut off."""
    if reply.finish_reason == "length":
        remedy = "load the judge with a larger context" if cut_by_context(reply) else "raise judge.max_tokens"
        return f"the judge's reply is incomplete: {note_of(reply)}; {remedy}"
    if status_of(reply) == "empty":
        return f"the judge gave an empty reply: {note_of(reply)}"
    return note_of(reply) or refused
