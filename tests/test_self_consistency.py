"""Shards and samples by key alone; what repeated verdicts add up to."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.contracts.lines import Key, RepeatedVerdict
from touchstone.self_consistency import Consistency, summary
from touchstone.shards import MOST_SHARDS, Shard, sample

names = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=8)
keys = st.builds(Key, names, names, names, st.integers(0, 999_999))


def line(prompt: str, number: int, score: int | None, *, flag: bool | None = False, **more: Any) -> RepeatedVerdict:
    return RepeatedVerdict(
        model="m", variant="v", prompt_id=prompt, repeat=0, round=number,
        score=score or 0, unscored=score is None, red_flag=flag if score else None, **more,
    )  # fmt: skip


@given(st.lists(keys, unique=True, max_size=30), st.integers(1, 12))
def test_every_key_belongs_to_exactly_one_shard(found: list[Key], n: int) -> None:
    shards = [Shard(k, n) for k in range(1, n + 1)]
    assert all(sum(shard.holds(key) for shard in shards) == 1 for key in found)


def test_shards_are_of_about_the_same_size_and_always_the_same() -> None:
    found = [Key("m", "v", f"p{n}", 0) for n in range(8000)]
    sizes = [sum(Shard(k, 8).holds(key) for key in found) for k in range(1, 9)]
    assert sum(sizes) == 8000 and all(900 < size < 1100 for size in sizes)
    # Bundles judged in parts by another version of touchstone must still fit together.
    places = [next(k for k in (1, 2, 3) if Shard(k, 3).holds(Key("m", "v", f"p{n}", n))) for n in range(12)]
    assert places == [3, 1, 3, 1, 1, 1, 3, 3, 1, 2, 2, 3]


@pytest.mark.parametrize("text", ["2/8", " 2 / 8 ", "02/08"])
def test_a_shard_as_it_is_written(text: str) -> None:
    assert Shard.parse(text) == Shard(2, 8) and str(Shard.parse(text)) == "2/8"


@pytest.mark.parametrize("text", ["", "2", "0/8", "9/8", "-1/8", "1/0", "a/b", "1/8/2", "½/8", f"1/{MOST_SHARDS + 1}"])
def test_what_is_no_shard_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match="shard"):
        Shard.parse(text)


@given(st.lists(keys, unique=True, max_size=30), st.integers(0, 31), st.randoms(use_true_random=False))
def test_a_sample_depends_on_the_keys_alone_and_grows(found: list[Key], size: int, order: random.Random) -> None:
    chosen = sample(found, size)
    shuffled = list(found)
    order.shuffle(shuffled)
    assert chosen == sample(shuffled, size) and len(chosen) == min(size, len(found)) and chosen <= set(found)
    assert chosen <= sample(found, size + 1)


def test_nothing_repeated_is_unknown() -> None:
    assert summary([]) is None


def test_figures_by_hand() -> None:
    lines = [
        line("same", 1, 4), line("same", 2, 4), line("same", 3, 4),
        line("apart", 1, 2), line("apart", 2, 5), line("apart", 3, 3),
        line("flag", 1, 3, flag=True), line("flag", 2, 3, flag=False),
        line("half", 1, 5), line("half", 2, None),
        line("none", 1, None), line("none", 2, None),
        line("part", 1, 1), line("part", 2, None), line("part", 3, 1, judge_model="j"),
    ]  # fmt: skip
    assert summary(lines) == Consistency(
        n=4, identical=2, mean_range=3 / 4, verdicts=11, unscored=4, too_few=2, judge_model="j"
    )
    found = summary(lines)
    assert found is not None and found.share_identical == 0.5


def test_a_later_line_of_a_round_wins() -> None:
    found = summary([line("a", 1, None), line("a", 2, 3), line("a", 1, 3)])
    assert found is not None and (found.n, found.identical, found.unscored, found.verdicts) == (1, 1, 0, 2)


def test_nothing_to_compare_is_unknown_not_zero() -> None:
    found = summary([line("a", 1, None), line("b", 1, 4)])
    assert found is not None and found.n == 0 and found.share_identical is None and found.mean_range is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.none() | st.integers(1, 5)), max_size=20))
def test_figures_stay_in_their_ranges(rows: list[tuple[str, int, int | None]]) -> None:
    found = summary(line(*row) for row in rows)
    if found is None:
        assert not rows
        return
    assert found.verdicts + found.unscored == len({row[:2] for row in rows})
    assert found.n + found.too_few == len({row[0] for row in rows})
    assert 0 <= found.identical <= found.n and 0 <= (found.mean_range or 0.0) <= 4
    assert found.identical == found.n if found.mean_range == 0 else True


@pytest.mark.parametrize("wrong", [{"round": 0}, {}, {"round": 1.5}, {"round": "1"}], ids=repr)
def test_a_repeat_says_which_it_is(wrong: dict[str, Any]) -> None:
    fields = {"model": "m", "variant": "v", "prompt_id": "p", "repeat": 0, "score": 3}
    with pytest.raises(ValueError, match="round"):
        RepeatedVerdict.model_validate({**fields, **wrong})
