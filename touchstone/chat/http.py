"""The thin shell around the pure parts: sockets, clocks and limits. The only module that knows the HTTP library.

All of that library's weather is handled here: its connection pool that can stick after a cancelled request (a fresh
one takes over), proxy variables that break loopback (not used there), its exceptions (told as ChatFailure), its
transparent decompression and unbounded bodies (raw bytes, counted). An endpoint is one address without redirects and
cookies, so its transport is all that is needed of it, at three quarters of the cost. When to ask again is decided in
`call`.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Final, Self, cast
from urllib.request import getproxies, proxy_bypass

import httpx

from touchstone.chat.address import Address, parse_address
from touchstone.chat.advice import useless
from touchstone.chat.call import Call, Means
from touchstone.chat.classify import classify
from touchstone.chat.doubts import Doubts
from touchstone.chat.failure import ChatFailure
from touchstone.chat.lenient import NotJson, loads, one_line
from touchstone.chat.probe import CONTEXT_ROUTES, model_names
from touchstone.chat.reply import Reply
from touchstone.chat.request import ChatRequest, Habits
from touchstone.chat.stream import StreamParser
from touchstone.errors import EndpointError

LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=4.0)
"""Callers bound their own concurrency. Servers close idle connections after 5 s (vLLM, llama.cpp); we do so earlier."""

POOL_TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 10.0
QUESTION_TIMEOUT_S: Final = 5.0
"""For the small questions (models, context), whole."""

DRAIN_S: Final = 0.25
"""After [DONE]: how long to wait for the end of the body, so that the connection can be used again."""

ERROR_BODY_S: Final = 5.0
MAX_ERROR_BYTES: Final = 64 * 1024
MAX_LIST_BYTES: Final = 8 * 1024 * 1024
MOST_TRANSPORTS: Final = 4
"""Fresh ones within one request; a pool that sticks again at once has another cause."""

Note = Callable[[str], None]

if find_spec("sniffio") is None:
    # httpcore asks for it several times a request, and Python does not remember what it did not find: a search of
    # all folders each time, a fifth of what a call costs.
    sys.modules["sniffio"] = None  # type: ignore[assignment]


class Endpoint:
    """One OpenAI-compatible server, spoken to from one event loop.

    `timeout_s` is the wall-clock limit of a whole `ask`, whatever the server trickles; waits that the server asked for
    (Retry-After) and pauses between tries do not count. `first_token_s` bounds each try up to its first token.
    `retries`: how often a passing failure is asked again; `reconnects`: how often of these where nobody answers at all.
    `on_note` gets each remark once: a mode refused, another model that answers, a prompt cut by the server.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 300.0,
        first_token_s: float | None = None,
        retries: int = 3,
        reconnects: int | None = None,
        on_note: Note | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        """Raises EndpointError where the address or the key cannot be used."""
        self._address = parse_address(url, api_key)
        self._timeout_s = timeout_s
        self._first_token_s = first_token_s
        self._retries = retries
        self._reconnects = reconnects
        self._on_note = on_note
        self._sleep = sleep
        self._clock = clock
        self._epoch = epoch
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._retired: list[httpx.AsyncHTTPTransport] = []
        self._timeouts = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S, pool=POOL_TIMEOUT_S).as_dict()
        self._headers = httpx.Headers(
            {
                "accept": "text/event-stream, application/json",
                "accept-encoding": "identity",  # a few bytes could otherwise unfold into gigabytes
                "content-type": "application/json",
                "user-agent": "touchstone",
            }
        )
        if self._address.authorization:
            self._headers["authorization"] = self._address.authorization
        self._chat_url = self._address.base + "/chat/completions"
        self._places: dict[str, httpx.URL] = {}
        self._habits: dict[str, Habits] = {}
        self._doubts = Doubts(self.context_tokens, self._note)
        self._noted: set[str] = set()

    def __repr__(self) -> str:
        return f"Endpoint({self.safe_url!r})"

    @property
    def safe_url(self) -> str:
        """The address without credentials and query, as it may be printed and stored."""
        return self._address.base

    async def __aenter__(self) -> Self:
        self._usable()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        transports, self._transport = [*self._retired, self._transport], None
        self._retired.clear()
        for transport in transports:
            if transport is not None:
                await transport.aclose()

    # ── what callers ask ─────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, request: ChatRequest) -> Reply:
        """One answer. Raises ChatFailure for what concerns this one, EndpointError where no other would come either."""
        means = Means(
            send=self._send_chat,
            diagnose=lambda failure: self._doubts.about_failure(request, failure),
            note=self._note,
            sleep=self._sleep,
            clock=self._clock,
            hide=self._address.hide,
            hide_said=self._address.hide.in_answer,
            timeout_s=self._timeout_s,
            first_token_s=self._first_token_s,
            retries=self._retries,
            reconnects=self._reconnects,
        )
        call = Call(request, self._habits.get(request.model, Habits()), means)
        try:
            reply = await call.run()
        except ChatFailure as failure:
            if failure.fatal or failure.kind == "unreachable":
                names = await self._names() if failure.kind == "model" else []
                raise _unusable(self._address, failure, request.model, names) from None
            raise
        self._habits[request.model] = self._habits.get(request.model, Habits()).joined(call.habits)
        await self._doubts.about_reply(request, reply)
        return reply

    async def greet(self) -> None:
        """Raises EndpointError at once where nobody listens or the key is wrong; the rest is for the first question."""
        try:
            await self._get(self._address.base + "/models")
        except ChatFailure as failure:
            if failure.kind in ("unreachable", "key"):
                raise _unusable(self._address, failure) from None

    async def models(self) -> list[str]:
        """The models that the server offers, in its order. Raises EndpointError."""
        try:
            return model_names(await self._get(self._address.base + "/models"))
        except ChatFailure as failure:
            raise EndpointError(useless(self._address, failure)) from None

    async def context_tokens(self, model: str) -> int | None:
        """The context of this model in tokens; None where no server tells. Never raises."""
        for versioned, path, read in CONTEXT_ROUTES:
            base = self._address.base if versioned else self._address.root
            try:
                if size := read(await self._get(base + path), model):
                    return size
            except EndpointError:
                return None
            except ChatFailure as failure:
                if failure.kind in ("unreachable", "timeout"):  # the other routes would fare no better
                    return None
        return None

    async def _names(self) -> list[str]:
        with suppress(EndpointError):
            return await self.models()
        return []

    def _note(self, text: str) -> None:
        """Tell each remark once."""
        if self._on_note is not None and text not in self._noted and len(self._noted) < 1_000:
            self._noted.add(text)
            self._on_note(self._address.hide(text))

    # ── the wire ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _send_chat(self, body: bytes, parser: StreamParser, started: Callable[[], None]) -> None:
        async with self._response("POST", self._chat_url, body) as response, aclosing(_raw(response)) as chunks:
            with suppress(httpx.HTTPError):  # the parser knows whether the reply was complete when it broke
                waiting = True
                async for chunk in chunks:
                    parser.feed(chunk, self._clock())
                    if waiting and parser.started:
                        waiting = False
                        started()
                    if parser.done:
                        break
                with suppress(TimeoutError):
                    async with asyncio.timeout(DRAIN_S):
                        async for _ in chunks:
                            pass

    async def _get(self, url: str) -> Any:
        """A JSON value. Raises ChatFailure; one free second try, as connections go stale."""
        for attempt in (1, 2):
            try:
                async with asyncio.timeout(QUESTION_TIMEOUT_S), self._response("GET", url) as response:
                    return loads(await _read(response, MAX_LIST_BYTES))
            except TimeoutError:
                raise ChatFailure("timeout", f"no answer within {QUESTION_TIMEOUT_S:g} s") from None
            except NotJson:
                raise ChatFailure("address", "the answer is not JSON") from None
            except httpx.HTTPError:
                raise ChatFailure("stream", "the answer broke off") from None
            except ChatFailure as failure:
                if failure.kind != "connection" or attempt == 2:
                    raise
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _response(self, method: str, url: str, body: bytes | None = None) -> AsyncIterator[httpx.Response]:
        """A response with a good status. Raises ChatFailure for all that goes wrong before its body."""
        response = await self._headers_of(method, url, body)
        try:
            if not response.is_success:
                raise classify(
                    response.status_code,
                    {name.lower(): value for name, value in response.headers.items()},
                    await _error_body(response),
                    now=self._epoch(),
                    hide=self._address.hide,
                )
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ChatFailure("permanent", "the server compresses its reply although it was asked not to")
            yield response
        finally:
            await response.aclose()

    async def _headers_of(self, method: str, url: str, body: bytes | None) -> httpx.Response:
        for _ in range(MOST_TRANSPORTS):
            transport = self._usable()
            try:
                request = httpx.Request(
                    method,
                    self._place(url),
                    headers=self._headers,
                    content=body,
                    extensions={"timeout": self._timeouts},
                )
                return await transport.handle_async_request(request)
            except httpx.InvalidURL:
                raise ChatFailure("address", "it is no web address") from None
            except httpx.PoolTimeout:
                self._retire(transport)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
                raise ChatFailure("unreachable", self._reason(error)) from None
            except httpx.HTTPError as error:
                raise ChatFailure("connection", self._reason(error)) from None
        raise ChatFailure("connection", "the connection pool sticks")

    def _place(self, url: str) -> httpx.URL:
        """Read once: there are few, and each is asked thousands of times. Raises httpx.InvalidURL."""
        if (found := self._places.get(url)) is None:
            found = self._places[url] = httpx.URL(url + self._address.query)
        return found

    def _reason(self, error: httpx.HTTPError) -> str:
        text = re.sub(r"^\[Errno -?\d+\] ", "", one_line(self._address.hide(str(error)), 150))
        if "SSL" in text or "TLS" in text or "certificate" in text:
            return f"TLS failed: {text}; http:// instead of https://, or an unknown certificate"
        return "connection refused" if text == "All connection attempts failed" else text or type(error).__name__

    def _usable(self) -> httpx.AsyncHTTPTransport:
        if self._transport is None:
            self._transport = self._fresh()
        return self._transport

    def _retire(self, transport: httpx.AsyncHTTPTransport) -> None:
        """Replace one whose pool sticks. It is closed at the end only: other requests may still run on it."""
        if self._transport is transport:
            self._retired.append(transport)
            self._transport = None

    def _fresh(self) -> httpx.AsyncHTTPTransport:
        local = self._address.is_loopback
        try:
            return httpx.AsyncHTTPTransport(
                limits=LIMITS,
                verify=not local or self._address.base.startswith("https:"),  # unused there, and costs 70 ms
                trust_env=not local,
                proxy=None if local else _proxy(self._address),
            )
        except (ImportError, ValueError, httpx.InvalidURL):
            raise EndpointError(
                f"the proxy for {self.safe_url} cannot be used (SOCKS, or a wrong address); "
                "correct or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or add the host to NO_PROXY"
            ) from None


def _unusable(
    address: Address, failure: ChatFailure, model: str | None = None, names: Sequence[str] = ()
) -> EndpointError:
    return EndpointError(useless(address, failure, model, names), passing=failure.kind == "unreachable")


def _proxy(address: Address) -> str | None:
    """The proxy that the environment, or the system, names for this address."""
    proxies = getproxies()
    found = proxies.get(address.base.partition(":")[0]) or proxies.get("all")
    place = address.host if address.port is None else f"{address.host}:{address.port}"
    if not found or proxy_bypass(place):
        return None
    return found if "://" in found else f"http://{found}"


def _raw(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes; the caller closes the response. It is a generator in fact, to be closed when left early.

    This is what `aiter_raw` goes through too; its own layers cost more than reading a token does.
    """
    return cast("AsyncGenerator[bytes, None]", cast(httpx.AsyncByteStream, response.stream).__aiter__())


async def _read(response: httpx.Response, limit: int, into: bytearray | None = None) -> bytes:
    """At most `limit` bytes of the body; the rest is never fetched."""
    found = bytearray() if into is None else into
    async with aclosing(_raw(response)) as chunks:
        async for chunk in chunks:
            found += chunk[: limit - len(found)]
            if len(found) >= limit:
                break
    return bytes(found)


async def _error_body(response: httpx.Response) -> bytes:
    """What can be had of it: an error body that trickles or breaks off must not hide the error."""
    found = bytearray()
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(ERROR_BODY_S):
            await _read(response, MAX_ERROR_BYTES, found)
    return bytes(found)
