"""Why an answer did not come, in a small closed set of kinds. Pure.

    kind            means                                                          asked again?
    refused_field   the server does not take `field`                               differently, once
    loading         the model is still being loaded                                polled
    retryable       busy, rate limited, a fault that may pass                      yes, later
    connection      the connection broke before any header                         yes, the first time at once
    stream          the reply broke off or was no reply                            yes, later
    silent          200 and then nothing at all                                    yes, later
    unreachable     no connection could be made                                    yes, later
    timeout         the wall-clock limit passed                                    no
    context         prompt and answer do not fit the context (`n_ctx`)             no
    machine         the server's machine cannot run the model (memory, file)       no
    permanent       asking the same again gives the same                           no
    key, model, quota, address                                                     no, and neither the next prompt

An answer that is cut off or empty is no failure: it is a `Reply` with a status.
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal[
    "refused_field",
    "loading",
    "retryable",
    "connection",
    "stream",
    "silent",
    "unreachable",
    "timeout",
    "context",
    "machine",
    "permanent",
    "key",
    "model",
    "quota",
    "address",
]

FATAL: Final[frozenset[Kind]] = frozenset({"key", "model", "quota", "address"})
PASSING: Final[frozenset[Kind]] = frozenset({"loading", "retryable", "connection", "stream", "silent", "unreachable"})


class ChatFailure(Exception):
    """One answer could not be had. `str()` is one plain line without secrets."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        n_ctx: int | None = None,
        n_prompt: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.status = status
        """HTTP status, or the number that stood in an error within a 200."""
        self.retry_after_s = retry_after_s
        """How long the server asks to wait, seconds."""
        self.n_ctx = n_ctx
        """Context of the model in tokens, where the server told."""
        self.n_prompt = n_prompt
        """Length of the prompt in tokens, where the server told."""
        self.field = field
        """The refused field: its name in the body, or "system" for the system role."""

    @property
    def fatal(self) -> bool:
        """Whether there is no point in asking the next prompt either."""
        return self.kind in FATAL

    @property
    def passing(self) -> bool:
        """Whether the same question may be answered later."""
        return self.kind in PASSING

    def __repr__(self) -> str:
        return f"ChatFailure({self.kind!r}, {self.message!r})"


def overflow(
    n_prompt: int | None,
    n_ctx: int | None,
    *,
    told: str = "",
    status: int | None = None,
    estimated: bool = False,
) -> ChatFailure:
    """The failure of a prompt that does not fit, with the sizes in tokens as far as they are known."""
    about = "about " if estimated else ""
    prompt = "the prompt" if n_prompt is None else f"the prompt ({about}{n_prompt} tokens)"
    context = "the context" if n_ctx is None else f"the context ({n_ctx} tokens)"
    words = f": {told}" if told and n_ctx is None else ""
    message = (
        f"{prompt} and the answer do not fit {context}{words}; "
        "load the model with a larger context, shorten the prompt or lower max_tokens"
    )
    return ChatFailure("context", message, status=status, n_ctx=n_ctx, n_prompt=n_prompt)
