"""When to ask again."""

from __future__ import annotations

import pytest

from touchstone.chat.failure import ChatFailure, Kind
from touchstone.chat.patience import Patience


def waits(retries: int, *failures: ChatFailure) -> list[float | None]:
    patience = Patience(retries)
    return [patience.wait_after(failure) for failure in failures]


def busy(retry_after_s: float | None = None) -> ChatFailure:
    return ChatFailure("retryable", "busy", retry_after_s=retry_after_s)


BROKEN = ChatFailure("connection", "broken")
LOADING = ChatFailure("loading", "loading")


@pytest.mark.parametrize(
    ("retries", "failures", "expected"),
    [
        (0, [busy()], [None]),
        (3, [busy()] * 4, [1.0, 2.0, 4.0, None]),
        (9, [busy()] * 9, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]),
        (3, [busy(0.0), busy(120.0), busy()], [0.0, 120.0, 4.0]),
        (3, [busy(121.0)], [None]),
        (0, [BROKEN, BROKEN], [0.0, None]),
        (1, [BROKEN, BROKEN, BROKEN], [0.0, 1.0, None]),
        (0, [LOADING] * 7, [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0]),
        (1, [LOADING, busy(), LOADING, busy()], [1.0, 1.0, 2.0, None]),
    ],
    ids=[
        "no retries",
        "doubling",
        "bounded",
        "what the server asks for",
        "too long a wait",
        "free once",
        "free, then counted",
        "loading is not counted",
        "mixed",
    ],
)
def test_waits(retries: int, failures: list[ChatFailure], expected: list[float | None]) -> None:
    assert waits(retries, *failures) == expected


@pytest.mark.parametrize(
    "kind", ["timeout", "context", "permanent", "machine", "refused_field", "key", "model", "quota", "address"]
)
def test_what_does_not_pass_is_not_asked_again(kind: Kind) -> None:
    assert waits(9, ChatFailure(kind, "no")) == [None]
