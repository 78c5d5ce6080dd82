"""The stated rules of measurement."""

from __future__ import annotations

from typing import Any

import pytest

from touchstone.chat.metrics import Times, is_cut, metrics_of
from touchstone.contracts.lines import Metrics

TIMES = Times(sent=10.0, first=12.0, last=16.0, ended=17.0, arrivals=9)
TIMINGS = {
    "cache_n": 0,
    "prompt_n": 100,
    "prompt_per_second": 500.0,
    "predicted_n": 9,
    "predicted_per_second": 40.0,
}


def measured(times: Times = TIMES, **given: Any) -> Metrics:
    return metrics_of(times, given.get("usage", {}), given.get("timings", {}), given.get("stats", {}))


def usage(prompt: Any = 100, completion: Any = 9, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


def test_times_are_seconds_since_the_request_was_sent() -> None:
    assert (measured().ttft_s, measured().total_s) == (2.0, 7.0)


def test_without_usage_nothing_is_claimed() -> None:
    metrics = measured()
    assert (metrics.prompt_tokens, metrics.completion_tokens, metrics.gen_tps, metrics.prompt_tps) == (None,) * 4


def test_servers_timings_come_first() -> None:
    metrics = measured(usage=usage(), timings=TIMINGS)
    assert (metrics.prompt_tps, metrics.gen_tps) == (500.0, 40.0)


def test_else_tokens_less_one_over_the_time_between_first_and_last() -> None:
    assert measured(usage=usage(completion=9)).gen_tps == 2.0


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), -1.0, "40", True, 10**400])
def test_nonsense_from_the_server_is_passed_over(rate: Any) -> None:
    assert measured(timings={"predicted_n": 9, "predicted_per_second": rate}).gen_tps == 2.0


def test_prefill_rate_is_not_guessed() -> None:
    assert measured(usage=usage()).prompt_tps is None


def test_counts_come_from_timings_where_usage_is_missing() -> None:
    metrics = measured(timings={**TIMINGS, "cache_n": 20})
    assert (metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens) == (120, 9, 20)


@pytest.mark.parametrize(
    ("times", "given"),
    [
        (TIMES, {"usage": usage(completion=1)}),
        (TIMES, {"usage": usage(completion=1), "timings": {**TIMINGS, "predicted_n": 1}}),
        (TIMES, {"usage": usage(completion=1), "stats": {"tokens_per_second": 50.0}}),
        (TIMES, {"usage": usage(completion=0)}),
        (Times(10.0, 17.0, 12.0, 12.0, 1), {"usage": usage()}),
        (Times(10.0, 17.0), {"usage": usage()}),
        (Times(10.0, 17.0, 12.0, 12.001, 2), {"usage": usage(completion=500)}),
        (TIMES, {"usage": usage(completion="9")}),
        (TIMES, {"timings": {"predicted_n": 9, "predicted_per_second": 0.0}, "usage": usage(completion=0)}),
    ],
    ids=[
        "one token",
        "one token by the server",
        "one token by LM Studio",
        "none",
        "all at once",
        "one piece",
        "hoarded by a gateway",
        "text for a number",
        "zero",
    ],
)
def test_no_decode_rate(times: Times, given: dict[str, Any]) -> None:
    assert measured(times, **given).gen_tps is None


@pytest.mark.parametrize(
    ("cached", "rate"),
    [({"cached_tokens": 50}, 500.0), ({"cached_tokens": 51}, None), (None, 500.0)],
    ids=["half", "most", "unknown"],
)
def test_no_prefill_rate_when_most_was_cached(cached: dict[str, int] | None, rate: float | None) -> None:
    timings = {name: value for name, value in TIMINGS.items() if name != "cache_n"}
    assert measured(usage=usage(prompt_tokens_details=cached), timings=timings).prompt_tps == rate


def test_no_prefill_rate_from_one_token() -> None:
    assert measured(timings={**TIMINGS, "prompt_n": 1}).prompt_tps is None


@pytest.mark.parametrize(
    "given",
    [
        {"usage": usage(prompt_tokens_details={"cached_tokens": 70})},
        {"usage": usage(prompt_cache_hit_tokens=70)},
        {"usage": usage(), "timings": {**TIMINGS, "cache_n": 70}},
    ],
    ids=["OpenAI", "DeepSeek", "llama.cpp"],
)
def test_cached_tokens(given: dict[str, Any]) -> None:
    assert measured(**given).cached_tokens == 70


def test_rate_of_lm_studio() -> None:
    assert measured(usage=usage(), stats={"tokens_per_second": 51.5}).gen_tps == 51.5


@pytest.mark.parametrize(
    ("fewest", "read", "cached", "cut"),
    [
        (3000, 2000, None, True),
        (3000, 2000, 1000, False),
        (3000, 2900, None, False),
        (300, 100, None, False),
        (3000, None, None, False),
    ],
    ids=["cut", "rest was cached", "nearly", "short", "unknown"],
)
def test_is_cut(fewest: int, read: int | None, cached: int | None, cut: bool) -> None:
    assert is_cut(fewest, Metrics(prompt_tokens=read, cached_tokens=cached)) is cut
