"""A small OpenAI-compatible server on a real socket that behaves as a test tells it to.

    with StandIn() as server:                       # every question gets a reproducible answer
        Endpoint(server.url)
    with StandIn(in_turn(error(503, "busy"), then=Brain())) as server: ...
    with StandIn(lambda request: say("42") if request.n == 0 else reset()) as server: ...

A script is a function from `Request` to `Action`. An action is a row of steps (bytes, pauses, ends) that are carried
out on the connection as they stand, so that anything that can happen on a wire can be written down. The server runs in
a thread of its own; a test may use it from asyncio or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self, cast
from urllib.parse import parse_qs, urlsplit

End = Literal["keep", "close", "reset", "hold"]
"""What becomes of the connection: kept alive, closed, reset, or left open and silent until the client goes."""

MAX_HEAD: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived."""

    method: str
    path: str
    """Without the query."""
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    n: int
    """Position among all requests since the start, from 0."""
    chat_n: int
    """How many chat requests came before this one."""
    connection: int
    """Number of the connection that it came over, from 0."""

    @property
    def json(self) -> dict[str, Any]:
        """The body as an object; empty where it is none."""
        with contextlib.suppress(ValueError):
            value = json.loads(self.body)
            return value if isinstance(value, dict) else {}
        return {}

    @property
    def is_chat(self) -> bool:
        return self.method == "POST" and self.path.endswith("/chat/completions")

    @property
    def model(self) -> str:
        return str(self.json.get("model", ""))

    @property
    def mode(self) -> str | None:
        """`json_schema`, `json_object` or None: the way in which JSON is asked for."""
        return (self.json.get("response_format") or {}).get("type")

    @property
    def schema(self) -> dict[str, Any] | None:
        return ((self.json.get("response_format") or {}).get("json_schema") or {}).get("schema")

    def text_of(self, role: str) -> str:
        """The last message of this role; empty where there is none."""
        found = [item for item in self.json.get("messages", []) if item.get("role") == role]
        return str(found[-1].get("content", "")) if found else ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; the client sees nothing."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Forever:
    """Send the same bytes again and again, until the client goes or `times` is reached."""

    data: bytes
    every_s: float = 0.0
    times: int | None = None


Step = bytes | Pause | Forever


@dataclass(frozen=True, slots=True)
class Action:
    """What happens on the connection after one request."""

    steps: tuple[Step, ...] = ()
    end: End = "keep"


Script = Callable[[Request], Action]


# ── ready-made actions ───────────────────────────────────────────────────────────────────────────────────────────────


def _head(status: int, kind: str, headers: Mapping[str, str], *lines: str) -> bytes:
    fixed = [f"HTTP/1.1 {status} X", f"content-type: {kind}", *lines]
    return "\r\n".join([*fixed, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode("latin-1")


def _encoded(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")


def plain(
    body: object,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
    end: End = "keep",
) -> Action:
    """One response in one piece: bytes and text as they are, anything else as JSON."""
    data = _encoded(body)
    return Action((_head(status, kind, headers or {}, f"content-length: {len(data)}") + data,), end)


def error(status: int, body: object, headers: Mapping[str, str] | None = None) -> Action:
    """An error response. A text is sent as it is, anything else as JSON."""
    return plain(body, status, headers)


def openai_error(status: int, message: str, **fields: object) -> Action:
    """An error in OpenAI's shape: `{"error": {"message": …, …}}`."""
    return error(status, {"error": {"message": message, **fields}})


def redirect(location: str, status: int = 307) -> Action:
    return plain(b"", status, {"location": location})


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM_HEAD: Final = _head(200, "text/event-stream", {}, "transfer-encoding: chunked")
STREAM_END: Final = b"0\r\n\r\n"


def event(value: object) -> bytes:
    """One server-sent event, as a chunk: `data: <JSON or text>`."""
    text = value if isinstance(value, str) else json.dumps(value)
    return chunked(f"data: {text}\n\n".encode("utf-8", "surrogatepass"))


def stream(*steps: Step | dict[str, Any] | str, end: End = "keep", finished: bool = True) -> Action:
    """An event stream. Dictionaries and texts become events; bytes and pauses are carried out as they are."""
    parts = [event(step) if isinstance(step, dict | str) else step for step in steps]
    return Action((STREAM_HEAD, *parts, *([STREAM_END] if finished else [])), end)


def delta(
    content: object = None, *, finish: str | None = None, model: str = "stand-in", **fields: object
) -> dict[str, Any]:
    """One chunk of a chat stream, as a dictionary; `fields` go into the delta."""
    inner = {**({} if content is None else {"content": content}), **fields}
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "model": model,
        "choices": [{"index": 0, "delta": inner, "finish_reason": finish}],
    }


def pieces(text: str, size: int = 8) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def usage_of(prompt: int, completion: int, cached: int | None = None) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details}


def say(
    text: str,
    *,
    reasoning: str = "",
    reasoning_field: str = "reasoning_content",
    finish: str | None = "stop",
    model: str = "stand-in",
    usage: Mapping[str, Any] | None = None,
    timings: Mapping[str, Any] | None = None,
    first_s: float = 0.0,
    every_s: float = 0.0,
    done: bool = True,
    end: End = "keep",
) -> Action:
    """A streamed answer: thinking, then text, in small chunks, then finish_reason, usage and [DONE].

    `first_s` seconds pass before the first token, `every_s` between two of them.
    """
    deltas = [delta(**{reasoning_field: part}, model=model) for part in pieces(reasoning)]
    deltas += [delta(part, model=model) for part in pieces(text)]
    steps: list[Step | dict[str, Any] | str] = [delta(role="assistant", model=model)]
    for i, item in enumerate(deltas):
        wait = every_s if i else first_s
        steps += [Pause(wait), item] if wait else [item]
    if finish is not None:
        steps.append(delta(finish=finish, model=model))
    count = usage_of(12, max(1, len(deltas))) if usage is None else dict(usage)
    last: dict[str, Any] = {"object": "chat.completion.chunk", "model": model, "choices": [], "usage": count}
    if timings is not None:
        last["timings"] = dict(timings)
    return stream(*steps, last, *(["[DONE]"] if done else []), end=end)


def say_plain(text: str, *, finish: str | None = "stop", model: str = "stand-in", **message: object) -> Action:
    """The answer of a server that ignores `stream`: one JSON object."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return plain({"object": "chat.completion", "model": model, "choices": [choice], "usage": usage_of(12, 3)})


def close_before_header() -> Action:
    return Action((), "close")


def reset_before_header() -> Action:
    return Action((), "reset")


def break_off(text: str, *, end: End = "reset") -> Action:
    """A stream that breaks in the middle: some text, then the connection is gone."""
    return stream(*(delta(part) for part in pieces(text)), finished=False, end=end)


def stall(after: str = "") -> Action:
    """Silence until the client goes: before the header, or after some text."""
    return break_off(after, end="hold") if after else Action((), "hold")


def trickle_comments(every_s: float = 0.02, times: int | None = None) -> Action:
    """A stream of nothing but comment lines, which keep every read timeout from passing."""
    return stream(Forever(chunked(b": keep-alive\n\n"), every_s, times), finished=False, end="close")


def endless(data: bytes, status: int = 200, kind: str = "text/event-stream") -> Action:
    """The same bytes without end, as one chunked body."""
    head = _head(status, kind, {}, "transfer-encoding: chunked")
    return Action((head, Forever(chunked(data))), "close")


def raw(*steps: Step, end: End = "close") -> Action:
    """Exactly these bytes on the wire."""
    return Action(steps, end)


def after(seconds: float, action: Action) -> Action:
    """The same action, later."""
    return replace(action, steps=(Pause(seconds), *action.steps))


def then_close(action: Action) -> Action:
    """The same action, but the connection closes behind it although keep-alive was promised."""
    return replace(action, end="close")


# ── scripts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def example(schema: Mapping[str, Any], seed: bytes) -> Any:
    """A value that is valid for this JSON schema and depends on nothing but `seed`.

    Numbers keep to their bounds, one boolean in sixteen is true, texts are short, every property is there.
    """
    return _value(schema, hashlib.sha256(seed).digest(), schema.get("$defs", schema.get("definitions", {})))


def _number(schema: Mapping[str, Any], roll: int) -> int:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0 - 1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 101) - 1)
    return int(low) + roll % max(1, int(high) - int(low) + 1)


def _word(schema: Mapping[str, Any], digest: bytes) -> str:
    text = f"text {digest.hex()[:6]}"
    text += "x" * max(0, int(schema.get("minLength", 0)) - len(text))
    return text[: int(schema.get("maxLength", len(text)))]


def _value(schema: Mapping[str, Any], seed: bytes, defs: Mapping[str, Any]) -> Any:
    digest = hashlib.sha256(seed).digest()
    roll = int.from_bytes(digest[:4], "big")
    if ref := schema.get("$ref"):
        return _value(defs[ref.rpartition("/")[2]], digest, defs)
    if "const" in schema:
        return schema["const"]
    if choices := schema.get("enum"):
        return choices[roll % len(choices)]
    for name in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(name):
            return _value(options[0], digest, defs)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _value(inner, digest + name.encode(), defs) for name, inner in properties.items()}
    if kind == "array":
        size = max(schema.get("minItems", 1), min(2, schema.get("maxItems", 2)))
        return [_value(schema.get("items", {"type": "string"}), digest + bytes([i]), defs) for i in range(size)]
    if kind == "boolean":
        return roll % 16 == 0
    if kind in ("integer", "number"):
        return _number(schema, roll)
    return None if kind == "null" else _word(schema, digest)


@dataclass(frozen=True)
class Brain:
    """The default script: every question gets an answer that is a function of model, messages and seed alone.

    A question that carries a JSON schema gets valid JSON for it. `schema` serves the questions for JSON that carry
    none (json_object), and with `always_json` every question. `delay_s` passes before the first token.
    """

    models: tuple[str, ...] = ("stand-in",)
    schema: Mapping[str, Any] | None = None
    always_json: bool = False
    delay_s: float = 0.0
    salt: str = ""
    n_ctx: int | None = None
    """If set, `/props` tells it as llama.cpp does."""

    def __call__(self, request: Request) -> Action:
        if request.is_chat:
            return self.answer(request)
        if request.path.endswith("/models") and not request.path.startswith("/api/"):
            return plain({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})
        if request.path == "/health":
            return plain({"status": "ok"})
        if request.path == "/props" and self.n_ctx is not None:
            return plain({"default_generation_settings": {"n_ctx": self.n_ctx}, "total_slots": 1})
        return error(404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})

    def answer(self, request: Request) -> Action:
        body = request.json
        return say(self.text_for(body), model=str(body.get("model", "stand-in")), first_s=self.delay_s)

    def text_for(self, body: Mapping[str, Any]) -> str:
        """The text that a chat request with this body gets; a test can compute it for itself."""
        seed = self.seed_of(body)
        wanted = body.get("response_format") or {}
        schema = (wanted.get("json_schema") or {}).get("schema") or (
            self.schema if self.always_json or wanted.get("type") == "json_object" else None
        )
        if schema is not None:
            return json.dumps(example(schema, seed), ensure_ascii=False)
        return f"Answer {hashlib.sha256(seed).hexdigest()[:12]} from the stand-in."

    def seed_of(self, body: Mapping[str, Any]) -> bytes:
        """What the answer depends on; roles do not count, so that a merged system prompt changes nothing."""
        words = "\n\n".join(str(item.get("content")) for item in body.get("messages", []))
        parts = [self.salt, str(body.get("model")), words, str(body.get("seed"))]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


def in_turn(*actions: Action, then: Script | None = None) -> Script:
    """One action after the other for chat requests, the last one for ever, or `then`; the rest goes to a Brain."""
    others = then or Brain()

    def script(request: Request) -> Action:
        if not request.is_chat or (then and request.chat_n >= len(actions)):
            return others(request)
        return actions[min(request.chat_n, len(actions) - 1)]

    return script


def routes(table: Mapping[str, Action], then: Script | None = None) -> Script:
    """Actions by path; everything else goes to `then` or a Brain."""
    others = then or Brain()
    return lambda request: table.get(request.path) or others(request)


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Seen:
    requests: list[Request] = field(default_factory=list)
    chats: int = 0
    connections: int = 0


class StandIn:
    """The server, as a context manager. `script` may be replaced while it runs."""

    def __init__(self, script: Script | None = None, *, port: int = 0) -> None:
        self.script: Script = script or Brain()
        self._port = port
        self._seen = _Seen()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None

    # what tests look at

    @property
    def port(self) -> int:
        return self._port

    @property
    def root(self) -> str:
        """`http://127.0.0.1:<port>`"""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>/v1`"""
        return f"{self.root}/v1"

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._seen.requests)

    @property
    def chats(self) -> list[Request]:
        """The chat requests so far."""
        return [request for request in self.requests if request.is_chat]

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        return self._seen.connections

    # its life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; again on the same port after a `stop`."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(ready)), daemon=True)
        self._thread.start()
        if not ready.wait(10):
            raise RuntimeError("the stand-in did not start")

    def stop(self) -> None:
        """Stop listening and reset every connection, as a server that dies does."""
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)
        self._loop = self._thread = self._stopping = None

    async def _main(self, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", self._port, limit=MAX_HEAD)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, self._seen.connections = self._seen.connections, self._seen.connections + 1
        try:
            while await self._one(reader, writer, connection):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            _reset(writer)
            raise
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        """One request and what follows from it; whether the connection lives on."""
        request = self._record(await _read_request(reader), connection)
        action = self.script(request)
        for is_bytes, steps in itertools.groupby(action.steps, lambda step: isinstance(step, bytes)):
            if is_bytes:
                writer.write(b"".join(cast("Iterator[bytes]", steps)))  # one packet where nothing lies between
            else:
                for step in steps:
                    await _carry_out(step, writer)
        await writer.drain()
        if action.end == "reset":
            _reset(writer)
        elif action.end == "hold":
            await reader.read()
        return action.end == "keep"

    def _record(self, request: Request, connection: int) -> Request:
        with self._lock:
            seen = self._seen
            full = replace(request, n=len(seen.requests), chat_n=seen.chats, connection=connection)
            seen.requests.append(full)
            seen.chats += full.is_chat
        return full


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
    size = headers.get("content-length", "0")
    body = await reader.readexactly(int(size)) if re.fullmatch(r"\d+", size) else b""
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return Request(method, parts.path, query, headers, body, n=0, chat_n=0, connection=0)


async def _carry_out(step: Step, writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
    elif isinstance(step, Forever):
        sent = 0
        while step.times is None or sent < step.times:
            writer.write(step.data)
            await writer.drain()
            await asyncio.sleep(step.every_s)
            sent += 1


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a TCP reset instead of a farewell."""
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def free_port() -> int:
    """A port on which nobody listens at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
