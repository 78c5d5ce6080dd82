"""What a server does without telling: answers with another model, cuts the prompt, or falls silent over it.

Only the effects that come in (`ask_context`, `note`) know anything of the outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from touchstone.chat.failure import ChatFailure, overflow
from touchstone.chat.lenient import one_line
from touchstone.chat.metrics import is_cut
from touchstone.chat.probe import fewest_tokens, likely_tokens
from touchstone.chat.reply import Reply, same_model, status_of
from touchstone.chat.request import ChatRequest

SHORT_PROMPT: Final = 256
"""Tokens; a prompt below this fits every context, so nobody needs to be asked."""


class Doubts:
    """Looks at what came back. The context of each model is asked for once, and only when there is doubt."""

    def __init__(self, ask_context: Callable[[str], Awaitable[int | None]], note: Callable[[str], None]) -> None:
        self._ask_context = ask_context
        self._note = note
        self._contexts: dict[str, int | None] = {}
        self._told_of_cuts: set[str] = set()

    async def about_failure(self, request: ChatRequest, failure: ChatFailure) -> ChatFailure:
        """The failure, or a clearer one: a silent 200 is often an overflow."""
        if failure.kind != "silent":
            return failure
        return await self._overflow(request, None) or failure

    async def about_reply(self, request: ChatRequest, reply: Reply) -> None:
        """Warn of another model. Raises ChatFailure where the prompt did not fit though the server said 200."""
        if not same_model(request.model, reply.model):
            self._note(f"asked for the model {request.model}, but {one_line(reply.model or '', 100)} answers")
        counted = reply.metrics.prompt_tokens
        fewest = fewest_tokens(request.system, request.user)
        cut = is_cut(fewest, reply.metrics)
        if not cut and status_of(reply) != "empty":
            return
        if failure := await self._overflow(request, counted):
            raise failure
        if cut and request.model not in self._told_of_cuts:
            self._told_of_cuts.add(request.model)
            self._note(
                f"{request.model} seems to get only a part of long prompts ({counted} of at least {fewest} tokens); "
                "load it with a larger context"
            )

    async def _overflow(self, request: ChatRequest, counted: int | None) -> ChatFailure | None:
        """The overflow behind silence or a cut prompt; None where the prompt may well have fitted.

        `counted` is the length of the prompt in tokens as the server counted it, if it did.
        """
        tokens = max(likely_tokens(request.system, request.user), counted or 0)
        if tokens < SHORT_PROMPT:
            return None
        if request.model not in self._contexts:
            self._contexts[request.model] = await self._ask_context(request.model)
        n_ctx = self._contexts[request.model]
        if n_ctx is None or tokens < n_ctx:
            return None
        return overflow(tokens, n_ctx, estimated=tokens != counted)
