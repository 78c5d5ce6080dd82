"""What a judge run would cost, before it begins. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from touchstone.chat.wire import ChatRequest
from touchstone.contracts.lines import Answer, Verdict
from touchstone.judge import Numbered, Plan
from touchstone.judge_questions import Questions

CHARS_PER_TOKEN: Final = 4.0
"""Where the answers do not tell how the models cut this language."""
RATIONALE_CHARS: Final = 350
"""Two to four sentences, where there is no verdict yet to measure."""
FRAME_CHARS: Final = 50
"""The JSON around one rationale."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls are exact, tokens and time are not."""

    verdicts: int
    reports: int
    repeats: int
    without_call: int
    """Answers that are empty or failed: they get an unscored verdict without a call."""
    prompt_tokens: int
    completion_tokens: int
    most_completion_tokens: int
    """If every reply used up its whole budget. Thinking models come nearer to this than to the estimate."""
    seconds: float | None
    """At the pace of the verdicts that this judge gave here before; None if there are none."""

    @property
    def calls(self) -> int:
        return self.verdicts + self.reports + self.repeats


def chars_per_token(answers: Iterable[Answer]) -> float:
    """As measured on the answers, whose tokens the servers counted."""
    chars = tokens = 0
    for answer in answers:
        counted = None if answer.metrics is None else answer.metrics.completion_tokens
        if counted and answer.answer:
            chars += len(answer.answer) + len(answer.reasoning or "")
            tokens += counted
    return min(max(chars / tokens, 1.0), 8.0) if tokens >= 100 else CHARS_PER_TOKEN


def pace(times: Sequence[float], longest_s: float) -> float | None:
    """Mean seconds between two verdicts given at these times (ascending). A longer gap was a pause between two runs."""
    gaps = [later - earlier for earlier, later in pairwise(times) if later - earlier <= longest_s]
    return sum(gaps) / len(gaps) if gaps else None


def estimate(questions: Questions, plan: Plan, repeats: Sequence[Numbered], earlier: Sequence[Verdict]) -> Estimate:
    """The cost of what `plan` leaves to do, and of judging `repeats` once more.

    `earlier`: verdicts that this very judge gave in this bundle, to measure by.
    """
    config, dimensions = questions.config, len(questions.pack.dimensions)
    judged = [item.answer for item in plan.todo if item.answer.judgeable]
    seen = {cell: [item.answer for item in plan.cells[cell] if item.answer.judgeable] for cell in plan.report_todo}
    reports = [questions.report(cell, answers, len(plan.cells[cell]))[0] for cell, answers in seen.items() if answers]
    prompts = sum(_length(questions.verdict(answer)) for answer in [*judged, *(item.answer for item in repeats)])
    prompts += sum(map(_length, reports))

    per_token = chars_per_token(item.answer for item in plan.answers)
    rationales = [len(verdict.rationale) for verdict in earlier if verdict.rationale]
    rationale = sum(rationales) / len(rationales) if rationales else RATIONALE_CHARS
    verdict_tokens = (rationale + FRAME_CHARS) / per_token
    verdicts = len(judged) + len(repeats)
    parts = verdicts + len(reports) * (dimensions + 1)
    calls = verdicts + len(reports)
    step = pace(sorted(verdict.ts for verdict in earlier if verdict.ts is not None), config.timeout_s)
    return Estimate(
        verdicts=len(judged),
        reports=len(reports),
        repeats=len(repeats),
        without_call=len(plan.todo) - len(judged),
        prompt_tokens=round(prompts / per_token),
        completion_tokens=round(min(parts * verdict_tokens, calls * config.max_tokens)),
        most_completion_tokens=calls * config.max_tokens,
        # A report takes as long as the verdicts that would be as long.
        seconds=None if step is None else step * parts,
    )


def _length(request: ChatRequest) -> int:
    return len(request.user) + len(request.system or "")
