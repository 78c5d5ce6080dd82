"""The body that is sent, and what is learned from refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone.chat.request import LADDER, ChatRequest, Habits, adapt, body_of, change_between, encode, mode_of
from touchstone.chat.wire import ChatFailure

SCHEMA = {"type": "object"}


def question(**changes: Any) -> ChatRequest:
    return ChatRequest(**{"model": "m", "user": "Why?", **changes})


def refusal(field: str) -> ChatFailure:
    return ChatFailure("refused_field", "no", status=400, field=field)


def test_smallest_body() -> None:
    assert body_of(question(), Habits()) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Why?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": 1024,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"system": "Be brief."},
            {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]},
        ),
        ({"system": ""}, {"messages": [{"role": "user", "content": "Why?"}]}),
        ({"seed": 0}, {"seed": 0}),
        ({"extra": {"top_k": 5, "temperature": 0.9}}, {"top_k": 5, "temperature": 0.9}),
        (
            {"schema": SCHEMA, "schema_name": "verdict"},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA},
                }
            },
        ),
        ({"schema": SCHEMA, "mode": "json_object"}, {"response_format": {"type": "json_object"}}),
    ],
    ids=["system", "empty system", "seed 0", "extra last", "schema", "json_object"],
)
def test_body(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expected.items() <= body_of(question(**changes), Habits()).items()


def test_text_mode_sends_no_response_format() -> None:
    assert "response_format" not in body_of(question(schema=SCHEMA, mode="text"), Habits())


@pytest.mark.parametrize("name", ["model", "messages", "stream"])
def test_extra_may_not_override_what_the_client_needs(name: str) -> None:
    with pytest.raises(ValueError, match=f"extra may not set {name}"):
        question(extra={name: 1})


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()], ids=["NaN", "set", "object"])
def test_extra_that_is_no_json_is_refused_at_once(value: object) -> None:
    with pytest.raises(ValueError, match="extra cannot be written as JSON"):
        question(extra={"x": value})


def test_body_with_lone_surrogates_can_be_sent() -> None:
    raw = encode(body_of(question(user="a\ud800\0ä😀", system="\udfff"), Habits()))
    messages = json.loads(raw)["messages"]
    assert [item["content"] for item in messages] == ["\ufffd", "a\ufffd\ufffdä😀"]


# ── habits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("request_", "habits", "failure", "learned"),
    [
        (question(schema=SCHEMA), Habits(), refusal("response_format"), Habits(mode="json_object")),
        (question(schema=SCHEMA), Habits(mode="json_object"), refusal("response_format"), Habits(mode="text")),
        (question(schema=SCHEMA, mode="json_object"), Habits(), refusal("response_format"), Habits(mode="text")),
        (question(schema=SCHEMA), Habits(mode="text"), refusal("response_format"), None),
        (question(), Habits(), refusal("response_format"), None),
        (question(), Habits(), refusal("max_tokens"), Habits(token_field="max_completion_tokens")),
        (question(), Habits(token_field="max_completion_tokens"), refusal("max_tokens"), None),
        (question(), Habits(), refusal("max_completion_tokens"), None),
        (question(), Habits(), refusal("seed"), Habits(dropped=frozenset({"seed"}))),
        (question(), Habits(dropped=frozenset({"seed"})), refusal("seed"), None),
        (question(system="x"), Habits(), refusal("system"), Habits(system_in_user=True)),
        (question(), Habits(), refusal("system"), None),
        (question(extra={"temperature": 1}), Habits(), refusal("temperature"), None),
        (question(schema=SCHEMA), Habits(), ChatFailure("permanent", "no", status=400), Habits(mode="json_object")),
        (question(schema=SCHEMA), Habits(), ChatFailure("permanent", "no", status=418), None),
        (question(), Habits(), ChatFailure("permanent", "no", status=400), None),
        (question(schema=SCHEMA), Habits(), ChatFailure("context", "no", status=400), None),
        (question(schema=SCHEMA), Habits(), ChatFailure("retryable", "no", status=500), None),
    ],
)  # fmt: skip
def test_adapt(request_: ChatRequest, habits: Habits, failure: ChatFailure, learned: Habits | None) -> None:
    assert adapt(request_, habits, failure) == learned


HABITS = st.builds(
    Habits,
    mode=st.sampled_from(LADDER),
    token_field=st.sampled_from(["max_tokens", "max_completion_tokens"]),
    dropped=st.frozensets(st.sampled_from(["seed", "temperature"])),
    system_in_user=st.booleans(),
)
FIELDS = st.sampled_from(["response_format", "max_tokens", "temperature", "seed", "stream_options", "system"])


@settings(deadline=None)
@given(HABITS, HABITS)
def test_joined_habits_ask_for_no_more_than_either(one: Habits, other: Habits) -> None:
    joined = one.joined(other)
    assert joined == other.joined(one)
    assert joined.joined(one) == joined
    assert LADDER.index(joined.mode) == max(LADDER.index(one.mode), LADDER.index(other.mode))
    assert joined.dropped == one.dropped | other.dropped


@settings(deadline=None)
@given(st.lists(FIELDS, max_size=30))
def test_refusals_without_end_lead_to_an_end(fields: list[str]) -> None:
    request = question(schema=SCHEMA, system="x", seed=1)
    habits, changes = Habits(), 0
    for field in fields:
        learned = adapt(request, habits, refusal(field))
        if learned is not None:
            assert change_between(habits, learned)
            habits, changes = learned, changes + 1
    assert changes <= 7


def test_mode_is_none_without_a_schema() -> None:
    assert mode_of(question(), Habits()) is None
