"""A model server for measuring a judge: quick, in a process of its own, OpenAI's protocol with streamed answers.

    python -m benchmarks.endpoint DELAY_S          prints its URL; ends with its standard input

Verdicts and reports are valid for the schema they are asked with. `GET /stats` tells what was asked for: how many
verdicts, and the seconds from the first one's request to the last one's reply.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any, Final

PIECES: Final = 24
"""Into so many deltas an answer is cut; a token each would be more of the same."""


def _event(value: object) -> bytes:
    data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def _stream(text: str) -> bytes:
    size = -(-len(text) // PIECES)
    events = [_event({"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]})]
    for at in range(0, len(text), size):
        delta = {"index": 0, "delta": {"content": text[at : at + size]}, "finish_reason": None}
        events.append(_event({"model": "bench", "choices": [delta]}))
    events.append(_event({"model": "bench", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    usage = {"prompt_tokens": 400, "completion_tokens": 60, "total_tokens": 460}
    events += [_event({"model": "bench", "choices": [], "usage": usage}), _event("[DONE]"), b"0\r\n\r\n"]
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
        events
    )


def _json(value: object, status: int = 200) -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_REASON: Final = "It names one small first step and leaves out what can wait, as the reference asks; a time would help."
VERDICTS: Final = [
    _stream(json.dumps({"rationale": _REASON, "red_flag": False, "score": score})) for score in range(1, 6)
]


def _report(schema: dict[str, Any]) -> bytes:
    names = schema["properties"]["dimensions"]["properties"]
    dimensions = {name: {"rationale": _REASON, "score": 4} for name in names}
    return _stream(json.dumps({"dimensions": dimensions, "summary": "Usable."}))


class Stats:
    """What was asked for."""

    def __init__(self) -> None:
        self.verdicts = 0
        self.first: float | None = None
        self.last: float | None = None

    def as_json(self) -> dict[str, float | int | None]:
        span = None if self.first is None or self.last is None else self.last - self.first
        return {"verdicts": self.verdicts, "span_s": span}


class Connection(asyncio.Protocol):
    """One connection of a client; requests one after the other."""

    def __init__(self, delay_s: float, stats: Stats) -> None:
        self._delay, self._stats = delay_s, stats
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._held[:end])
            at = head.lower().find(b"content-length:")
            size = 0 if at < 0 else int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(self._held) < end + 4 + size:
                return
            body = bytes(self._held[end + 4 : end + 4 + size])
            del self._held[: end + 4 + size]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1]
        if path.endswith(b"/chat/completions"):
            self._chat(json.loads(body))
        elif path.endswith(b"/v1/models"):
            self._write(_json({"object": "list", "data": [{"id": "bench", "object": "model", "max_model_len": 32768}]}))
        elif path == b"/stats":
            self._write(_json(self._stats.as_json()))
        else:
            self._write(_json({"error": {"message": "not found"}}, 404))

    def _chat(self, request: dict[str, Any]) -> None:
        wanted = (request.get("response_format") or {}).get("json_schema") or {}
        is_verdict = wanted.get("name") != "report"
        stats = self._stats
        if is_verdict:
            stats.first = stats.first or time.perf_counter()
            stats.verdicts += 1
        reply = VERDICTS[stats.verdicts % 5] if is_verdict else _report(wanted["schema"])
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._reply, reply, is_verdict)
        else:
            self._reply(reply, is_verdict)

    def _reply(self, reply: bytes, is_verdict: bool) -> None:
        if is_verdict:
            self._stats.last = time.perf_counter()
        self._write(reply)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


async def serve(delay_s: float) -> None:
    stats = Stats()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wait_for_parent() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    server = await loop.create_server(lambda: Connection(delay_s, stats), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    threading.Thread(target=wait_for_parent, daemon=True).start()
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
