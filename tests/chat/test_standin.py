"""The stand-in server itself: what it promises to tests."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat.asking import SCHEMA, ask, json_question, question
from tests.standin import Brain, StandIn, error, example, free_port, in_turn, routes, say
from touchstone.chat import ChatFailure, Endpoint


def fetched(url: str, data: bytes | None = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as failure:
        with failure:
            return failure.code, json.loads(failure.read())


def test_default_brain_lists_models_and_is_healthy() -> None:
    with StandIn(Brain(models=("a", "b"), n_ctx=512)) as server:
        assert [entry["id"] for entry in fetched(f"{server.url}/models")[1]["data"]] == ["a", "b"]
        assert fetched(f"{server.root}/health") == (200, {"status": "ok"})
        assert fetched(f"{server.root}/props")[1]["default_generation_settings"] == {"n_ctx": 512}
        assert fetched(f"{server.root}/nothing")[0] == 404


def test_requests_are_recorded() -> None:
    told = ask(None, question(system="Be brief.", user="Why?"), api_key="the-key")
    request = told.chats[0]
    assert (request.method, request.path, request.n, request.chat_n) == ("POST", "/v1/chat/completions", 0, 0)
    assert request.headers["authorization"] == "Bearer the-key"
    assert (request.text_of("system"), request.text_of("user"), request.model) == ("Be brief.", "Why?", "stand-in")
    assert (request.schema, request.mode) == (None, None)


def test_answers_are_reproducible_and_differ_between_questions() -> None:
    first, second = (ask(None, question(), question(user="other")) for _ in range(2))
    assert [r.text for r in first.results] == [r.text for r in second.results]  # type: ignore[union-attr]
    assert first.results[0].text != first.results[1].text  # type: ignore[union-attr]


def test_answer_can_be_computed_by_the_test() -> None:
    told = ask(None, question(system="Be brief."))
    assert told.reply.text == Brain().text_for(told.bodies[0])


def test_merged_system_prompt_changes_no_answer() -> None:
    split = {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]}
    merged = {"messages": [{"role": "user", "content": "a\n\nb"}]}
    assert Brain().text_for(split) == Brain().text_for(merged)


def test_schema_is_answered_with_valid_json() -> None:
    verdict = json.loads(ask(None, json_question()).reply.text)
    assert set(verdict) == {"score", "red_flag"}
    assert verdict["score"] in range(1, 6)
    assert isinstance(verdict["red_flag"], bool)


def test_json_object_and_text_are_answered_by_the_schema_of_the_brain() -> None:
    brain = Brain(schema=SCHEMA, always_json=True)
    for mode in ("json_object", "text"):
        assert "score" in json.loads(ask(brain, json_question(mode=mode)).reply.text)


Schema = dict[str, Any]


def _bounded(kind: str, low: str, high: str, start: int) -> st.SearchStrategy[Schema]:
    bounds = st.tuples(st.integers(start, 40), st.integers(0, 9))
    return bounds.map(lambda pair: {"type": kind, low: pair[0], high: pair[0] + pair[1]})


LEAVES: st.SearchStrategy[Schema] = st.one_of(
    _bounded("integer", "minimum", "maximum", -9),
    _bounded("string", "minLength", "maxLength", 0),
    st.sampled_from(
        [{"type": "boolean"}, {"enum": ["a", "b"]}, {"type": ["integer", "null"], "minimum": 1, "maximum": 5}]
    ),
)


def _nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    lists = inner.map(lambda item: {"type": "array", "items": item, "minItems": 1, "maxItems": 3})
    fields = st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    return lists | fields.map(lambda found: {"type": "object", "properties": found})


SCHEMAS = st.recursive(LEAVES, _nested, max_leaves=6)


def valid(value: Any, schema: dict[str, Any]) -> bool:
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"][0] if isinstance(schema["type"], list) else schema["type"]
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str) and schema["minLength"] <= len(value) <= schema["maxLength"]
    if kind == "array":
        return 1 <= len(value) <= 3 and all(valid(item, schema["items"]) for item in value)
    properties = schema["properties"]
    return set(value) == set(properties) and all(valid(value[name], inner) for name, inner in properties.items())


@settings(deadline=None)  # the machine may be busy
@given(SCHEMAS, st.binary(max_size=8))
def test_example_fits_its_schema_and_depends_on_the_seed_alone(schema: dict[str, Any], seed: bytes) -> None:
    value = example(schema, seed)
    assert valid(value, schema)
    assert example(schema, seed) == value


def test_example_follows_references() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"const": 7}}}
    assert example(schema, b"") == {"a": 7}


def test_booleans_are_mostly_false() -> None:
    found = [example({"type": "boolean"}, bytes([i])) for i in range(256)]
    assert 2 < sum(found) < 40


def test_script_may_change_while_it_runs() -> None:
    with StandIn(lambda _: error(500, {"a": 1})) as server:
        assert fetched(server.url + "/models") == (500, {"a": 1})
        server.script = routes({"/v1/models": error(418, {"b": 2})})
        assert fetched(server.url + "/models") == (418, {"b": 2})


def test_in_turn_gives_one_action_after_the_other_and_leaves_the_rest_alone() -> None:
    script = in_turn(say("one"), say("two"))
    told = ask(script, *[question(user=str(i)) for i in range(3)])
    assert [r.text for r in told.results] == ["one", "two", "two"]  # type: ignore[union-attr]


def test_stopped_server_refuses_and_resets_and_can_come_back() -> None:
    async def run(server: StandIn) -> None:
        async with Endpoint(server.url, retries=0) as endpoint:
            slow = asyncio.create_task(endpoint.ask(question()))
            while not server.chats:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.stop)
            with pytest.raises(ChatFailure):
                await slow
            await asyncio.to_thread(server.start)
            server.script = Brain()
            assert (await endpoint.ask(question())).text.startswith("Answer")

    with StandIn(lambda _: say("a" * 800, every_s=0.05)) as server:
        asyncio.run(run(server))


def test_port_can_be_chosen() -> None:
    port = free_port()
    with StandIn(port=port) as server:
        assert server.url == f"http://127.0.0.1:{port}/v1"


@pytest.mark.parametrize("n", range(3))
def test_server_leaves_nothing_behind(n: int) -> None:
    with StandIn() as server:
        assert fetched(server.url + "/models")[0] == 200
