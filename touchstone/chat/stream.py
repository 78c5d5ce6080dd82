"""Bytes of a successful response to a `Reply` or a `ChatFailure`, however the bytes are cut. Pure.

    parser = StreamParser(sent_at)
    for chunk, now in arriving: parser.feed(chunk, now)
    reply = parser.close(now)

A server that ignores `stream` and sends one JSON object is read as well, and so is an error that hides in a 200.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from touchstone.chat.classify import classify_told, no_hiding
from touchstone.chat.errorbody import Hide, told_of
from touchstone.chat.failure import ChatFailure
from touchstone.chat.lenient import NotJson, as_dict, as_text, loads, one_line
from touchstone.chat.metrics import Times, metrics_of
from touchstone.chat.reply import Reply, finish_of, shaped
from touchstone.chat.sse import EventCutter, EventTooLong
from touchstone.contracts.lines import Mode
from touchstone.jsonsource import clean_text

MAX_TEXT: Final = 4 * 1024 * 1024
"""Characters of answer and thinking together; more is a model in a loop."""

MAX_JSON_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a reply that comes as one JSON object."""

_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_FIGURES: Final = frozenset({"usage", "timings", "stats", "x_groq"})
"""What few chunks hold, in whole or in the last one."""


def texts_of(value: Any) -> tuple[str, str]:
    """(text, thinking) of a message's content: a text, null, or a list of parts (Mistral, Gemini)."""
    if isinstance(value, str):
        return value, ""
    text, thinking = [], []
    for part in value if isinstance(value, list) else []:
        if isinstance(part, str):
            text.append(part)
        elif as_dict(part).get("type") == "thinking":
            thinking.append("".join(texts_of(part.get("thinking"))))
        else:
            text.append(as_text(as_dict(part).get("text")) or "")
    return "".join(text), "".join(thinking)


def _reasoning_of(message: Mapping[str, Any]) -> str:
    """Some servers send both fields with the same text, so only one of them counts."""
    for name in ("reasoning_content", "reasoning"):
        if found := as_text(message.get(name)):
            return found
    return ""


class StreamParser:
    """Collects one reply. `feed` and `close` raise ChatFailure; afterwards the parser is of no more use."""

    def __init__(
        self,
        sent_at: float,
        *,
        max_tokens: int | None = None,
        mode: Mode | None = None,
        hide: Hide = no_hiding,
    ) -> None:
        """`sent_at` and every `now` come from one monotonic clock, in seconds."""
        self._max_tokens = max_tokens
        self._mode: Mode | None = mode
        self._hide = hide
        self._shape: Literal["unknown", "events", "json"] = "unknown"
        self._head: list[bytes] = []
        self._head_size = 0
        self._cutter = EventCutter()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._finish: str | None = None
        self._model: str | None = None
        self._extras: dict[str, dict[str, Any]] = {}
        self._sent = sent_at
        self._first: float | None = None
        self._last: float | None = None
        self._arrivals = 0
        self._ended: float | None = None
        self.done = False
        """Whether the server said that nothing more comes."""
        self.text_chars = 0
        """Characters of answer and thinking so far."""

    @property
    def started(self) -> bool:
        """Whether a first token has arrived."""
        return self._first is not None

    def feed(self, data: bytes, now: float) -> None:
        """Take the next bytes, which arrived at `now`."""
        if self.done:
            return
        if self._shape != "events":
            data = self._look(data)
        if self._shape == "events":
            self._cut(data, now)

    def _look(self, data: bytes) -> bytes:
        """Tell by the first byte what this is: an event stream gets its bytes back, JSON is kept for the end."""
        if self._shape == "unknown":
            data = data.lstrip(_BLANK)
            if not data:
                return b""
            if data[:1] == b"<":
                raise ChatFailure("address", "the server answers with a web page")
            if data[:1] not in b"{[":
                self._shape = "events"
                return data
            self._shape = "json"
        self._head.append(data)
        self._head_size += len(data)
        if self._head_size > MAX_JSON_BYTES:
            raise ChatFailure("permanent", f"the reply is longer than {MAX_JSON_BYTES} bytes; cut off")
        return b""

    def _cut(self, data: bytes, now: float) -> None:
        try:
            for event in self._cutter.feed(data):
                self._event(event, now)
                if self.done:
                    return
        except EventTooLong as error:
            raise ChatFailure("permanent", str(error)) from None

    def _event(self, data: bytes, now: float) -> None:
        if data.strip() == b"[DONE]":
            self.done, self._ended = True, now
            return
        try:
            value = loads(data)
        except NotJson:
            words = one_line(self._hide(data[:2_000].decode("utf-8", "replace")), 80)
            raise ChatFailure("stream", f"the stream holds something that is not JSON: {words}") from None
        self._value(value, "delta", now)

    def _value(self, value: Any, part: Literal["delta", "message"], now: float) -> None:
        if isinstance(value, dict):
            self._chunk(value, part, now)
            return
        for item in value if isinstance(value, list) else []:
            self._chunk(as_dict(item), part, now)

    def _chunk(self, chunk: dict[str, Any], part: Literal["delta", "message"], now: float) -> None:
        if error := chunk.get("error") or (chunk.get("object") == "error" and chunk):
            raise classify_told(200, {}, told_of(error, self._hide))
        if self._model is None:
            self._model = as_text(chunk.get("model"))
        if not _FIGURES.isdisjoint(chunk):
            self._figures(chunk)
        self._choices(chunk.get("choices"), part, now)

    def _figures(self, chunk: dict[str, Any]) -> None:
        for name in ("usage", "timings", "stats"):
            if found := chunk.get(name):
                self._extras[name] = as_dict(found) or self._extras.get(name, {})
        if (groq := chunk.get("x_groq")) and (hidden := as_dict(as_dict(groq).get("usage"))):
            self._extras["usage"] = hidden

    def _choices(self, choices: Any, part: str, now: float) -> None:
        for choice in choices if isinstance(choices, list) else []:
            entry = as_dict(choice)
            if entry.get("index", 0) not in (0, None):
                continue
            self._message(as_dict(entry.get(part)), now)
            if finish := entry.get("finish_reason"):
                self._finish = finish_of(finish) or self._finish

    def _message(self, message: dict[str, Any], now: float) -> None:
        content, thinking, refusal = message.get("content"), "", ""
        text = content if isinstance(content, str) else ""
        if len(message) > 1 or not text:  # else it is what nearly all are: a piece of text and nothing more
            text, thinking = texts_of(content)
            thinking = _reasoning_of(message) or thinking
            refusal = as_text(message.get("refusal")) or ""
        grown = len(text) + len(thinking) + len(refusal)
        if not grown:
            return
        self._text.append(text)
        if thinking or refusal:
            self._reasoning.append(thinking)
            self._refusal.append(refusal)
        self._arrivals += self._last != now
        self._first = now if self._first is None else self._first
        self._last = now
        self.text_chars += grown
        if self.text_chars > MAX_TEXT:
            raise ChatFailure("permanent", f"the answer is longer than {MAX_TEXT} characters; cut off")

    def close(self, now: float) -> Reply:
        """The reply, once the server has closed the stream or said that it is done."""
        ended = now if self._ended is None else self._ended
        if self._shape == "json":
            self._whole(now)
        elif not self.done:
            self._rest(now)
        if self._finish is None and not self.done:
            self._broken_off()
        if self._finish == "error":
            raise ChatFailure("stream", "the server ended the answer with an error and gave no reason")
        return self._reply(ended)

    def _whole(self, now: float) -> None:
        try:
            value = loads(b"".join(self._head))
        except NotJson:
            raise ChatFailure("stream", "the reply is JSON that breaks off or is nested too deep") from None
        self._value(value, "message", now)
        self.done = self.text_chars > 0
        self._first = self._last = None  # it came in one piece: there was no first token to be seen

    def _rest(self, now: float) -> None:
        for event in self._cutter.close():
            try:
                self._event(event, now)
            except ChatFailure as failure:
                if failure.kind != "stream":  # half an event is told below as what it is: a broken stream
                    raise

    def _broken_off(self) -> None:
        if self.text_chars:
            raise ChatFailure(
                "stream", f"the stream broke off after {self.text_chars} characters, without finish_reason or [DONE]"
            )
        raise ChatFailure("silent", "the server answered 200 and then said nothing")

    def _reply(self, ended: float) -> Reply:
        text = "".join(self._text) or "".join(self._refusal)
        answer, thinking = shaped(text, "".join(self._reasoning), wants_json=self._mode is not None)
        times = Times(self._sent, ended, self._first, self._last, self._arrivals)
        extras = [self._extras.get(name, {}) for name in ("usage", "timings", "stats")]
        return Reply(
            text=answer,
            reasoning=thinking,
            finish_reason=self._finish,
            model=None if self._model is None else clean_text(self._model[:500]),
            metrics=metrics_of(times, *extras),
            mode=self._mode,
            max_tokens=self._max_tokens,
        )
