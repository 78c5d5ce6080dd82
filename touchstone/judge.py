"""Judging: one verdict an answer, then one report a cell. The loop knows no file, no socket and no clock.

`plan` says what is left to do, given what is there; `Judging.run` does it, one question after the other, and hands
each result to its callbacks the moment it has it. Asking, writing and the time come in as arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from touchstone.chat.wire import ChatFailure, ChatRequest, Reply
from touchstone.contracts.config import JudgeConfig
from touchstone.contracts.lines import Answer, Cell, Key, Report, Verdict
from touchstone.contracts.pack import Pack, Prompt
from touchstone.errors import BundleError
from touchstone.jsonsource import Refused, clean_text
from touchstone.judge_prompts import Question, Templates, read_report, read_verdict, shorten_evenly

RAW_CHARS: Final = 20_000
"""How much of a reply that could not be read is kept."""
CHARS_PER_TOKEN: Final = 2.5
"""Careful on purpose: German in a small vocabulary needs a token for less than three characters."""
DEFAULT_CONTEXT: Final = 4096
"""Tokens assumed where the server does not tell."""

Ask = Callable[[ChatRequest], Awaitable[Reply]]


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

    @property
    def standing(self) -> list[Verdict]:
        """Verdicts that stand, in the order of the answers."""
        return [self.prior[item.answer.key] for item in self.answers if item.answer.key in self.prior]

    @property
    def report_todo(self) -> list[Cell]:
        return [cell for cell in self.cells if cell not in self.reports]

    @property
    def total(self) -> int:
        return len(self.answers)


def plan(
    answers: Iterable[Numbered], verdicts: Mapping[Key, Verdict], reports: Mapping[Cell, Report], pack: Pack
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
        if (verdict := verdicts.get(item.answer.key)) is not None and _stands(verdict, item.answer)
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
    )


def _stands(verdict: Verdict, answer: Answer) -> bool:
    if verdict.answer_sha is not None and verdict.answer_sha != answer.sha:
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
    """Where results go. All default to nowhere, so that each can be added alone."""

    on_verdict: Callable[[Verdict], None] = lambda verdict: None
    on_report: Callable[[Report], None] = lambda report: None


@dataclass(frozen=True)
class Judging:
    """One run of the judge over one bundle."""

    pack: Pack
    config: JudgeConfig
    model: str
    templates: Templates
    ask: Ask
    clock: Callable[[], float]
    """Seconds since the epoch."""
    context_tokens: int | None = None
    """What the judge's context holds; None if the server does not tell."""
    callbacks: Callbacks = field(default_factory=Callbacks)

    async def run(self, plan: Plan) -> None:
        """Ask for everything that is left. Raises EndpointError if the judge cannot be used at all."""
        for item in plan.todo:
            self.callbacks.on_verdict(await self.verdict(item))
        for cell in plan.report_todo:
            self.callbacks.on_report(await self.report(cell, plan.cells[cell]))

    # -- verdicts

    async def verdict(self, item: Numbered) -> Verdict:
        """The verdict on one answer; unscored, with the reason, where there is none."""
        answer = item.answer
        if not answer.judgeable:
            reason = answer.error or ("the model gave no answer" if answer.status != "error" else "the model failed")
            return self._unscored(item, f"no answer to judge: {reason}")
        question = self.templates.verdict(self.pack, self._prompt(answer), answer)
        try:
            reply = await self.ask(self._request(question))
        except ChatFailure as failure:
            return self._unscored(item, str(failure))
        try:
            said = read_verdict(_text_of(reply))
        except Refused as refused:
            return self._unscored(item, _cause(reply, str(refused)), reply)
        return self._line(item, reply).model_copy(
            update={
                "score": said.score,
                "red_flag": said.red_flag,
                "unscored": False,
                "rationale": said.rationale,
            }
        )

    def _prompt(self, answer: Answer) -> Prompt:
        prompt = self.pack.prompt(answer.prompt_id)
        # A key that the pack does not know is judged all the same, on what is there.
        return prompt or Prompt.model_construct(
            id=answer.prompt_id,
            category=None,
            title=None,
            text=answer.prompt_id,
            reference=None,
            red_flags=(),
        )

    def _request(self, question: Question) -> ChatRequest:
        config = self.config
        return ChatRequest(
            model=self.model,
            user=question.user,
            system=question.system,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            seed=None,
            extra=config.extra,
            schema=question.schema,
            schema_name=question.schema_name,
            mode="json_schema",
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
            judge_model=self.model,
            prompt_sha=self.templates.sha,
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
        seen = [item for item in items if item.answer.judgeable]
        if not seen:
            return self._empty(cell, items, 0, "no answer to look at")
        context = self.context_tokens or DEFAULT_CONTEXT
        failure: ChatFailure | None = None
        for _ in range(3):
            shown = self._shown(cell, seen, context)
            try:
                reply = await self.ask(self._request(self.templates.report(self.pack, cell, shown, len(items))))
            except ChatFailure as error:
                failure = error
                if error.kind != "context":
                    break
                # Our estimate of tokens was too hopeful: believe the server's size, and leave more room.
                context = int(min(context, error.n_ctx or context) * 0.6)
                continue
            return self._read_report(cell, items, len(shown), reply)
        return self._empty(cell, items, 0, str(failure))

    def _shown(self, cell: Cell, seen: Sequence[Numbered], context: int) -> list[dict[str, str]]:
        """The answers as the report shows them: as many and as long as the context holds."""
        heads = [self._head(item.answer) for item in seen]
        frame = self.templates.report(self.pack, cell, [], len(seen))
        fixed = len(frame.user) + len(frame.system or "") + sum(len(id_) + len(title) + 50 for id_, title in heads)
        room = (context - self.config.max_tokens - 64) * CHARS_PER_TOKEN - fixed
        cut = shorten_evenly([item.answer.answer for item in seen], int(max(room, 200)))
        return [{"prompt_id": heads[k][0], "question": heads[k][1], "text": text} for k, text in cut]

    def _head(self, answer: Answer) -> tuple[str, str]:
        prompt = self._prompt(answer)
        question = " ".join((prompt.title or prompt.text).split())
        repeat = f"#{answer.repeat}" if answer.repeat else ""
        return f"{answer.prompt_id}{repeat}", question[:120]

    def _read_report(self, cell: Cell, items: Sequence[Numbered], shown: int, reply: Reply) -> Report:
        try:
            said = read_report(_text_of(reply), self.pack)
        except Refused as refused:
            raw = clean_text(_everything(reply))[:RAW_CHARS]
            empty = self._empty(cell, items, shown, _cause(reply, str(refused)))
            return empty.model_copy(update={"raw": raw})
        ids = [dimension.id for dimension in self.pack.dimensions]
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
            judge_model=self.model,
            dim_scores={dimension.id: None for dimension in self.pack.dimensions},
            dim_rationales={},
            summary=None,
            answers_seen=seen,
            answers_sha=answers_sha(items),
            prompt_sha=self.templates.sha,
            error=error,
            ts=self.clock(),
        )


def _text_of(reply: Reply) -> str:
    """Where the JSON stands: in the answer, or, with some thinking models, in what they call reasoning."""
    return reply.text if reply.text.strip() or reply.reasoning is None else reply.reasoning


def _everything(reply: Reply) -> str:
    return reply.text if reply.reasoning is None else f"{reply.reasoning}\n{reply.text}"


def _cause(reply: Reply, refused: str) -> str:
    """Why a reply is no verdict: a cut-off one is not bad JSON, it is cut off."""
    if reply.finish_reason == "length":
        return "the reply was cut off at max_tokens; raise judge.max_tokens"
    if not _everything(reply).strip():
        return "the judge gave an empty reply"
    return refused
