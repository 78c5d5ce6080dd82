"""The body of a chat response in pieces: a reply or a named failure, the same however it is cut."""

from __future__ import annotations

from fuzz.pieces import Choices, split
from fuzz.replies import stored
from touchstone.chat.failure import ChatFailure
from touchstone.chat.reply import Reply
from touchstone.chat.stream import StreamParser


def read(pieces: list[bytes]) -> tuple[object, ...]:
    """What came of it; times are left out, they are ours."""
    parser = StreamParser(0.0, max_tokens=64, mode="json_schema")
    try:
        for piece in pieces:
            parser.feed(piece, 1.0)
        reply: Reply = parser.close(2.0)
    except ChatFailure as failure:
        assert str(failure) and "\n" not in str(failure) and len(str(failure)) < 5000
        return failure.kind, str(failure)
    stored(reply.text)
    stored(reply.reasoning)
    return reply.text, reply.reasoning, reply.finish_reason, reply.model, reply.metrics.completion_tokens


def check(data: bytes) -> None:
    choices = Choices(data)
    cuts = [choices.number(65536) for _ in range(choices.number(16))]
    body = choices.rest()
    whole = read([body])
    assert read([piece for piece in split(body, cuts) if piece]) == whole
    if len(body) <= 512:
        assert read([body[at : at + 1] for at in range(len(body))]) == whole
