"""The small questions, the proxies, and what the package promises about itself."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import touchstone.chat
from tests.chat.asking import ask, question
from tests.standin import (
    Action,
    Pause,
    StandIn,
    close_before_header,
    endless,
    error,
    free_port,
    in_turn,
    plain,
    raw,
    routes,
    say,
    stall,
)
from touchstone.chat import Endpoint, http
from touchstone.errors import EndpointError


def models_of(script: Any, **options: Any) -> list[str]:
    async def run(server: StandIn) -> list[str]:
        async with Endpoint(server.root, **options) as endpoint:
            return await endpoint.models()

    with StandIn(script) as server:
        return asyncio.run(run(server))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"object": "list", "data": [{"id": "b"}, {"id": "a"}]}, ["b", "a"]),
        ({"data": []}, []),
        ({"models": [{"name": "x"}], "data": None}, ["x"]),
        ([{"id": "x"}], ["x"]),
        ({"data": [None, 3, {"id": 7}, {"id": "x"}]}, ["x"]),
        ("[]", []),
    ],
    ids=["OpenAI", "none", "Ollama", "bare list", "odd entries", "empty list"],
)
def test_models(body: object, names: list[str]) -> None:
    assert models_of(routes({"/v1/models": plain(body)})) == names


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (error(401, {"error": "Unauthorized"}), "wants an API key"),
        (error(404, {"detail": "Not Found"}), "is no chat endpoint"),
        (plain("<html>hello</html>"), "is no chat endpoint"),
        (close_before_header(), "does not tell which models"),
        (error(503, {"error": {"message": "Loading model"}}), "does not tell which models"),
        (stall(), "no answer within 0.3 s"),
    ],
    ids=["no key", "no route", "web page", "breaks", "loading", "stalls"],
)
def test_models_that_cannot_be_had(action: Action, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "QUESTION_TIMEOUT_S", 0.3)
    with pytest.raises(EndpointError, match=words):
        models_of(routes({"/v1/models": action}))


def test_models_survive_one_stale_connection() -> None:
    turns = iter([close_before_header()])
    good = plain({"data": [{"id": "x"}]})
    assert models_of(lambda request: next(turns, good)) == ["x"]


LLAMA = {"/props": plain({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4})}
VLLM = {"/v1/models": plain({"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 32768}]})}
STUDIO = {
    "/api/v0/models": plain(
        {"data": [{"id": "m", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096}]}
    )
}
STUDIO_UNLOADED = {"/api/v0/models": plain({"data": [{"id": "m", "max_context_length": 131072}]})}
OLLAMA = {"/api/ps": plain({"models": [{"name": "m:latest", "context_length": 8192}]})}


@pytest.mark.parametrize(
    ("table", "size"),
    [
        (LLAMA, 2048),
        (VLLM, 32768),
        (STUDIO, 4096),
        (STUDIO_UNLOADED, 131072),
        (OLLAMA, 8192),
        ({}, None),
        ({"/props": plain("rubbish"), "/v1/models": plain([])}, None),
        ({"/props": plain({"default_generation_settings": {"n_ctx": 0}})}, None),
        ({"/props": plain({"default_generation_settings": [], "n_ctx": "9" * 400})}, None),
        ({"/props": endless(b" " * 65536, kind="application/json")}, None),
        ({"/api/v0/models": close_before_header(), **LLAMA}, 2048),
    ],
    ids=[
        "llama.cpp, per slot",
        "vLLM",
        "LM Studio, loaded",
        "LM Studio, not loaded",
        "Ollama",
        "nobody tells",
        "rubbish",
        "zero",
        "odd types",
        "endless",
        "one route breaks",
    ],
)
def test_context_tokens(table: dict[str, Action], size: int | None) -> None:
    async def run(server: StandIn) -> int | None:
        async with Endpoint(server.url) as endpoint:
            return await endpoint.context_tokens("m")

    with StandIn(routes(table, then=lambda _: error(404, ""))) as server:
        assert asyncio.run(run(server)) == size


def test_context_tokens_never_raises_and_does_not_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "QUESTION_TIMEOUT_S", 0.2)

    async def run(url: str) -> int | None:
        async with Endpoint(url) as endpoint:
            return await endpoint.context_tokens("m")

    assert asyncio.run(run(f"http://127.0.0.1:{free_port()}")) is None
    with StandIn(lambda _: stall()) as server:
        assert asyncio.run(run(server.url)) is None
        assert len(server.requests) == 1


def test_error_body_that_trickles_does_not_hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ERROR_BODY_S", 0.5)
    head = b"HTTP/1.1 400 X\r\ncontent-length: 99\r\n\r\n"
    told = ask(lambda _: raw(head, b"wrong spoon", Pause(5)))
    assert str(told.failure) == "the server answers 400: wrong spoon"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "nonsense://x:y"])
def test_proxy_that_cannot_be_used_is_said(name: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, proxy)

    async def run() -> None:
        async with Endpoint("http://example.org"):
            pass

    with pytest.raises(EndpointError, match="unset HTTP_PROXY"):
        asyncio.run(run())


def test_endpoint_can_be_left_and_used_again() -> None:
    async def run(server: StandIn) -> None:
        endpoint = Endpoint(server.url)
        for _ in range(2):
            async with endpoint:
                assert (await endpoint.ask(question())).text == "fine"

    with StandIn(lambda _: say("fine")) as server:
        asyncio.run(run(server))


def test_remarks_that_come_again_are_told_once() -> None:
    notes: list[str] = []

    async def run(server: StandIn) -> None:
        async with Endpoint(server.url, on_note=notes.append) as endpoint:
            await asyncio.gather(*(endpoint.ask(question(user=str(i))) for i in range(8)))

    with StandIn(lambda _: say("fine", model="other")) as server:
        asyncio.run(run(server))
    assert len(notes) == 1


def test_server_errors_are_counted_for_each_question_on_its_own() -> None:
    async def run(server: StandIn) -> None:
        async def sleep(_: float) -> None: ...

        async with Endpoint(server.url, retries=1, sleep=sleep) as endpoint:
            for _ in range(3):
                assert (await endpoint.ask(question())).text == "fine"

    busy = error(503, "busy")
    with StandIn(in_turn(busy, say("fine"), busy, say("fine"), busy, say("fine"))) as server:
        asyncio.run(run(server))


# ── the package ──────────────────────────────────────────────────────────────────────────────────────────────────────

PACKAGE = Path(touchstone.chat.__file__).parent
SHELL = {"http.py"}
FORBIDDEN = {"os", "time", "random", "threading", "http", "httpx", "socket"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_only_the_shell_knows_the_outside(path: Path) -> None:
    if path.name not in SHELL:
        assert not imported(path) & FORBIDDEN


@pytest.mark.parametrize("module", ["touchstone.chat", "touchstone.chat.wire"])
def test_http_library_is_imported_only_when_needed(module: str) -> None:
    code = f"import sys, {module}; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_package_offers_what_it_lists() -> None:
    for name in touchstone.chat.__all__:
        assert getattr(touchstone.chat, name) is not None
    with pytest.raises(AttributeError):
        _ = touchstone.chat.nothing_of_this_name
