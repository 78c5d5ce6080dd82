"""The pure side of the chat client in one place: what is asked, what came back, why it did not. No I/O, no clocks.

ChatRequest -> body_of -> bytes                    request
bytes -> StreamParser -> Reply | ChatFailure       stream (sse, reply, metrics)
status, headers, body -> classify -> ChatFailure   classify (errorbody, failure)
"""

from __future__ import annotations

from touchstone.chat.classify import classify, retry_after
from touchstone.chat.failure import ChatFailure, Kind
from touchstone.chat.reply import Reply, Status, cut_by_context, note_of, same_model, split_thinking, status_of
from touchstone.chat.request import RESERVED, ChatRequest, Habits, adapt, body_of, encode, mode_of
from touchstone.chat.stream import StreamParser

__all__ = [
    "RESERVED",
    "ChatFailure",
    "ChatRequest",
    "Habits",
    "Kind",
    "Reply",
    "Status",
    "StreamParser",
    "adapt",
    "body_of",
    "classify",
    "cut_by_context",
    "encode",
    "mode_of",
    "note_of",
    "retry_after",
    "same_model",
    "split_thinking",
    "status_of",
]
