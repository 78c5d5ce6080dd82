"""Evaluating: every prompt of a pack, to every model, under every variant. The loop knows no file, socket or clock.

One model after the other, so that no server has to swap models in the middle; a failed answer is data and the run
goes on; only an endpoint that is of no use at all ends the questions to a model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from touchstone.chat.stop import Stopped
from touchstone.chat.wire import ChatFailure, ChatRequest, Reply, note_of, status_of
from touchstone.contracts.lines import Answer, Key, Metrics
from touchstone.contracts.pack import Pack, Prompt, Variant
from touchstone.errors import EndpointError
from touchstone.jsonsource import clean_text

Ask = Callable[[ChatRequest], Awaitable[Reply]]

LOADED_S = 2.0
"""A first question that took no longer met a model that was loaded already; on a busy machine it may take that long."""


@dataclass(frozen=True, slots=True)
class Task:
    """One question to ask."""

    model: str
    variant: Variant
    prompt: Prompt
    repeat: int

    @property
    def key(self) -> Key:
        return Key(self.model, self.variant.id, self.prompt.id, self.repeat)


@dataclass(frozen=True)
class Params:
    """How every question of a run is asked."""

    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def tasks(pack: Pack, models: Collection[str], variants: Collection[str], repeats: int) -> Iterator[Task]:
    """Every question of a run, in the order in which it is asked."""
    chosen = [variant for variant in pack.variants if variant.id in variants]
    for model in models:
        for repeat in range(repeats):
            for variant in chosen:
                for prompt in pack.prompts:
                    yield Task(model, variant, prompt, repeat)


@dataclass(frozen=True)
class Evaluation:
    """One run of questions."""

    ask: Ask
    clock: Callable[[], float]
    """Seconds since the epoch."""
    timer: Callable[[], float]
    """Seconds that only go forwards."""
    params: Params = field(default_factory=Params)
    on_answer: Callable[[Answer], None] = lambda answer: None
    on_model: Callable[[str, int], None] = lambda model, questions: None
    """Before a model is warmed up, and how many questions it is to get."""
    on_refusal: Callable[[str, EndpointError], None] = lambda model, error: None
    """A model cannot be asked at all; its remaining questions are left out."""
    stopping: Callable[[], bool] = lambda: False
    """Asked before each question: whether the run is to end here."""

    async def run(self, todo: list[Task]) -> int:
        """Ask everything in `todo`; returns how many questions were not asked."""
        unasked = 0
        for model in dict.fromkeys(task.model for task in todo):
            mine = [task for task in todo if task.model == model]
            if not self.stopping():
                self.on_model(model, len(mine))
            unasked += await self._model(model, mine)
        return unasked

    async def _model(self, model: str, mine: list[Task]) -> int:
        done = 0
        try:
            load_s = None if self.stopping() else await self._warm_up(model)
            for task in mine:
                if self.stopping():
                    break
                answer = await self.answer(task)
                if load_s is not None and answer.status != "error":
                    answer, load_s = _with_load(answer, load_s), None
                self.on_answer(answer)
                done += 1
        except EndpointError as error:
            self.on_refusal(model, error)
        except Stopped:
            pass  # in a pause between two tries: the question stays unasked
        return len(mine) - done

    async def _warm_up(self, model: str) -> float | None:
        """Loads the model, so that the first answer is not slower than the others. Not kept.

        Returns how long the loading took, seconds: what the first question took longer than the same one once more.
        None where the model was there already.
        """
        first = await self._greeting_s(model)
        if first is None or first < LOADED_S or self.stopping():
            return None
        again = await self._greeting_s(model)
        return None if again is None or first - again < LOADED_S else first - again

    async def _greeting_s(self, model: str) -> float | None:
        """Seconds that the least question takes; None where it fails."""
        start = self.timer()
        try:
            await self.ask(ChatRequest(model=model, user="Hi", max_tokens=1, temperature=0.0))
        except ChatFailure:
            # Whatever is wrong shows, and is recorded, with the first real question.
            return None
        return self.timer() - start

    async def answer(self, task: Task) -> Answer:
        """The answer to one question: what came, or why nothing did."""
        try:
            reply = await self.ask(self._request(task))
        except ChatFailure as failure:
            return self._line(task, answer="", status="error", error=clean_text(str(failure)))
        return self._line(
            task,
            answer=reply.text,
            reasoning=reply.reasoning,
            status=status_of(reply),
            finish_reason=reply.finish_reason,
            error=note_of(reply),
            metrics=reply.metrics,
        )

    def _request(self, task: Task) -> ChatRequest:
        seed = self.params.seed
        return ChatRequest(
            model=task.model,
            user=task.prompt.text,
            system=task.variant.system or None,
            temperature=self.params.temperature,
            max_tokens=self.params.max_tokens,
            # Repeats with one seed would be one answer, several times.
            seed=None if seed is None else seed + task.repeat,
            extra=self.params.extra,
        )

    def _line(self, task: Task, **fields: Any) -> Answer:
        return Answer(
            model=task.model,
            variant=task.variant.id,
            prompt_id=task.prompt.id,
            repeat=task.repeat,
            category=task.prompt.category,
            ts=self.clock(),
            **{"metrics": Metrics(), **fields},
        )


def _with_load(answer: Answer, load_s: float) -> Answer:
    metrics = (answer.metrics or Metrics()).model_copy(update={"load_s": load_s})
    return answer.model_copy(update={"metrics": metrics})
