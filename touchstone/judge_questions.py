"""What the judge is asked, ready to be sent: pack, config and templates put together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from touchstone.chat.wire import ChatRequest
from touchstone.contracts.config import JudgeConfig
from touchstone.contracts.lines import Answer, Cell
from touchstone.contracts.pack import Pack, Prompt
from touchstone.judge_prompts import BRIEF_MAX, Question, Templates, shorten_evenly

CHARS_PER_TOKEN: Final = 2.5
"""Careful on purpose: German in a small vocabulary needs a token for less than three characters."""
DEFAULT_CONTEXT: Final = 4096
"""Tokens assumed where the server does not tell."""


@dataclass(frozen=True)
class Questions:
    """The questions of one judge about one pack's answers."""

    pack: Pack
    config: JudgeConfig
    model: str
    templates: Templates

    def verdict(self, answer: Answer) -> ChatRequest:
        """The question about one answer."""
        return self._request(self.templates.verdict(self.pack, self._prompt(answer), answer))

    def report(
        self, cell: Cell, seen: Sequence[Answer], total: int, context: int = DEFAULT_CONTEXT
    ) -> tuple[ChatRequest, int]:
        """The question about one cell, and how many of the answers `seen` it shows.

        As many and as long as a context of so many tokens holds. `total` is how many answers the cell has.
        """
        heads = [self._head(answer) for answer in seen]
        frame = self.templates.report(self.pack, cell, [], len(seen))
        fixed = len(frame.user) + len(frame.system or "") + sum(len(id_) + len(title) + 50 for id_, title in heads)
        room = (context - self.config.max_tokens - 64) * CHARS_PER_TOKEN - fixed
        cut = shorten_evenly([answer.answer for answer in seen], int(max(room, 200)))
        shown = [{"prompt_id": heads[k][0], "question": heads[k][1], "text": text} for k, text in cut]
        return self._request(self.templates.report(self.pack, cell, shown, total)), len(shown)

    def brief(self, request: ChatRequest, parts: int = 1) -> ChatRequest | None:
        """The same question once more, for a reply in few words; None unless the config wants a second try.

        `parts`: how many rationales the reply holds, each of which has the budget for itself.
        """
        budget = self.config.second_try_max_tokens
        if budget is None:
            return None
        return replace(
            request,
            user=f"{request.user}\n\n{self.templates.brief}",
            max_tokens=budget * parts,
            schema=_brief_schema(request.schema),
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

    @cached_property
    def _prompts(self) -> dict[str, Prompt]:
        return {prompt.id: prompt for prompt in self.pack.prompts}

    def _prompt(self, answer: Answer) -> Prompt:
        prompt = self._prompts.get(answer.prompt_id)
        # A key that the pack does not know is judged all the same, on what is there.
        return prompt or Prompt.model_construct(
            id=answer.prompt_id,
            category=None,
            title=None,
            text=answer.prompt_id,
            reference=None,
            red_flags=(),
        )

    def _head(self, answer: Answer) -> tuple[str, str]:
        prompt = self._prompt(answer)
        question = " ".join((prompt.title or prompt.text).split())
        repeat = f"#{answer.repeat}" if answer.repeat else ""
        return f"{answer.prompt_id}{repeat}", question[:120]


def _brief_schema(schema: Any) -> Any:
    """The schema with short texts: under a server's grammar they are what a reply's length comes from."""
    if not isinstance(schema, Mapping):
        return schema
    shorter = {name: _brief_schema(value) for name, value in schema.items() if name != "minLength"}
    if "maxLength" in shorter:
        shorter["maxLength"] = min(shorter["maxLength"], BRIEF_MAX)
    return shorter
