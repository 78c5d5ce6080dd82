"""The lines of answers.jsonl, judgements.jsonl, self_consistency.jsonl and reports.jsonl. Pure.

Required is what identifies a line and what it is about; everything else that is absent reads as null.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from touchstone.contracts.base import Logged, Measure, Name, Score, Timestamp

Status = Literal["ok", "truncated", "empty", "error"]
Mode = Literal["json_schema", "json_object", "text"]


class Key(NamedTuple):
    """Identifies one answer and its verdict."""

    model: str
    variant: str
    prompt_id: str
    repeat: int


class Cell(NamedTuple):
    """One model under one system prompt: the unit that gets a recommendation."""

    model: str
    variant: str


class Keyed(Logged):
    """A line that belongs to one key."""

    model: Name
    variant: Name
    prompt_id: Name
    repeat: int = Field(ge=0, lt=1_000_000)
    category: str | None = None

    @property
    def key(self) -> Key:
        return Key(self.model, self.variant, self.prompt_id, self.repeat)

    @property
    def cell(self) -> Cell:
        return Cell(self.model, self.variant)


class Metrics(Logged):
    """What one answer cost. Seconds, tokens, tokens per second; null where the server did not tell."""

    ttft_s: Measure | None = None
    """Until the first reasoning or content token."""
    total_s: Measure | None = None
    """Until the end of the stream."""
    prompt_tokens: Annotated[int, Field(ge=0, le=10**15)] | None = None
    completion_tokens: Annotated[int, Field(ge=0, le=10**15)] | None = None
    cached_tokens: Annotated[int, Field(ge=0, le=10**15)] | None = None
    prompt_tps: Measure | None = None
    gen_tps: Measure | None = None
    load_s: Measure | None = None


class Answer(Keyed):
    """A line of answers.jsonl: what the model said."""

    answer: str
    reasoning: str | None = None
    status: Status | None = None
    finish_reason: str | None = None
    error: str | None = None
    ts: Timestamp | None = None
    metrics: Metrics | None = None

    @property
    def sha(self) -> str:
        """Identifies what was judged: the text and whether it is complete."""
        return hashlib.sha256(f"{self.status}\n{self.answer}".encode()).hexdigest()

    @property
    def judgeable(self) -> bool:
        """Whether there is a text that a judge could look at."""
        return self.status not in ("error", "empty") and bool(self.answer.strip())


class Scored(Keyed):
    """What a verdict and its event have in common."""

    score: Annotated[int, Field(ge=0, le=5)] | None = None
    red_flag: bool | None = None
    unscored: bool | None = None
    rationale: str | None = None

    @model_validator(mode="after")
    def _score_or_unscored(self) -> Self:
        if self.unscored:
            if self.score:
                raise ValueError(f"score {self.score} and unscored contradict each other")
        elif self.score is None:
            raise ValueError("neither score nor unscored is given")
        elif self.score == 0:
            raise ValueError("score must be 1..5; 0 stands only with unscored: true")
        return self


class Verdict(Scored):
    """A line of judgements.jsonl: what the judge said about one answer."""

    ts: Timestamp | None = None
    i: Annotated[int, Field(ge=-1, le=10**15)] | None = None
    judge_model: str | None = None
    prompt_sha: str | None = None
    answer_sha: str | None = None
    mode: Mode | None = None
    finish_reason: str | None = None
    error: str | None = None
    raw: str | None = None


class RepeatedVerdict(Verdict):
    """A line of self_consistency.jsonl: a verdict once more on an answer of the sample."""

    round: Annotated[int, Field(ge=1, le=1_000_000)]
    """Which of the repeats, from 1."""


class Report(Logged):
    """A line of reports.jsonl: the judge's holistic scores for one cell."""

    model: Name
    variant: Name
    judge_model: str | None = None
    dim_scores: dict[str, Score | None]
    dim_rationales: dict[str, str | None] = {}
    summary: str | None = None
    answers_seen: Annotated[int, Field(ge=0, le=10**15)] | None = None
    answers_sha: str | None = None
    """Over the answers of the cell; a report on other answers is asked for again. Null counts as unchanged."""
    prompt_sha: str | None = None
    error: str | None = None
    raw: str | None = None
    ts: Timestamp | None = None

    @property
    def cell(self) -> Cell:
        return Cell(self.model, self.variant)
