"""What one answer cost, by stated rules. Pure.

The server's own timings come first: they know nothing of the network and of the queue before us. Without them the
decode rate is (n - 1) / (last - first token time), and a prefill rate is not claimed at all, because the time to the
first token also holds the queue. No rate from one token, no prefill rate when most of the prompt was cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from touchstone.chat.lenient import as_count, as_dict, as_measure
from touchstone.contracts.lines import Metrics

_TOKENS_PER_ARRIVAL: Final = 16
"""More tokens than this in one arrival: a gateway hoarded the stream, and its arrival times say nothing."""

_LONG: Final = 512
"""Tokens from which a prompt is long enough to compare counts."""


@dataclass(frozen=True, slots=True)
class Times:
    """When things happened; all on the same monotonic clock, seconds."""

    sent: float
    ended: float
    first: float | None = None
    """First reasoning or content token; None where the reply came in one piece."""
    last: float | None = None
    arrivals: int = 0
    """How many distinct moments brought tokens."""


def _first_count(*values: Any) -> int | None:
    return next((count for value in values if (count := as_count(value)) is not None), None)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None else one + (other or 0)


def _client_rate(times: Times, tokens: int | None) -> float | None:
    if times.first is None or times.last is None or tokens is None or tokens < 2:
        return None
    span = times.last - times.first
    if span <= 0 or tokens > times.arrivals * _TOKENS_PER_ARRIVAL:
        return None
    return as_measure((tokens - 1) / span)


def _server_rate(timings: Mapping[str, Any], which: str) -> float | None:
    """`prompt_per_second` or `predicted_per_second` of llama.cpp, unless it was measured on one token."""
    counted = as_count(timings.get(f"{which}_n"))
    if counted is not None and counted < 2:
        return None
    return as_measure(timings.get(f"{which}_per_second")) or None


def metrics_of(times: Times, usage: Mapping[str, Any], timings: Mapping[str, Any], stats: Mapping[str, Any]) -> Metrics:
    """Metrics from arrival times, `usage` (OpenAI), `timings` (llama.cpp) and `stats` (LM Studio)."""
    cached = _first_count(
        as_dict(usage.get("prompt_tokens_details")).get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),
        timings.get("cache_n"),
    )
    prompt = _first_count(usage.get("prompt_tokens"), _sum(as_count(timings.get("prompt_n")), cached))
    completion = _first_count(usage.get("completion_tokens"), timings.get("predicted_n"))
    mostly_cached = cached is not None and prompt is not None and cached * 2 > prompt
    gen = _server_rate(timings, "predicted")
    if gen is None and completion != 1:
        gen = as_measure(stats.get("tokens_per_second")) or _client_rate(times, completion)
    return Metrics(
        ttft_s=None if times.first is None else as_measure(times.first - times.sent),
        total_s=as_measure(times.ended - times.sent),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        prompt_tps=None if mostly_cached else _server_rate(timings, "prompt"),
        gen_tps=gen,
    )


def is_cut(fewest: int, metrics: Metrics) -> bool:
    """Whether the server read fewer tokens than the prompt can have (`fewest`, a lower bound): it was silently cut.

    Cached tokens are added because some servers leave them out of the count.
    """
    read = metrics.prompt_tokens
    return read is not None and fewest >= _LONG and read + (metrics.cached_tokens or 0) < fewest * 0.9
