"""Keys as numbers: nothing is lost on the way there and back, and answers keep their lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.contracts.lines import Cell, Key
from touchstone.jsonsource import Refused
from touchstone.keys import KeyIndex


def k(prompt: str, repeat: int = 0, model: str = "m", variant: str = "v") -> Key:
    return Key(model, variant, prompt, repeat)


KEYS = st.builds(
    Key, st.sampled_from(["m", "n", "x" * 500]), st.sampled_from(["v", "w"]), st.sampled_from("abcd"),
    st.sampled_from([0, 1, 999_999]),
)  # fmt: skip


@given(st.lists(KEYS, max_size=30))
def test_numbers_follow_first_appearance_and_lead_back(sequence: list[Key]) -> None:
    keys = KeyIndex()
    numbers = [keys.number(key) for key in sequence]
    distinct = list(dict.fromkeys(sequence))
    assert numbers == [distinct.index(key) for key in sequence]
    assert [keys.key(number) for number in range(len(keys))] == distinct
    assert keys.cells == list(dict.fromkeys(Cell(key.model, key.variant) for key in sequence))
    assert [keys.cells[keys.cell_number(number)] for number in numbers] == [Cell(s.model, s.variant) for s in sequence]


@given(st.lists(st.none() | KEYS, max_size=30), st.lists(KEYS, max_size=5))
def test_slots_are_first_lines_and_broken_lines_take_one(lines: list[Key | None], strays: list[Key]) -> None:
    keys = KeyIndex()
    for at, stray in enumerate(strays):
        keys.number(stray, at)
    for slot, key in enumerate(lines):
        if key is None:
            keys.skipped(slot)
        else:
            keys.answered(key, slot)
    assert keys.slots == len(lines)
    answered = {key: slot for slot, key in reversed(list(enumerate(lines))) if key is not None}
    for number in range(len(keys)):
        assert keys.slot(number) == answered.get(keys.key(number))
    first = sorted(answered, key=lambda key: answered[key])
    rest = [key for key in dict.fromkeys(strays) if key not in answered]
    assert [keys.key(number) for number in keys.in_order()] == first + rest
    assert [keys.key(number) for number in keys.unanswered()] == rest
    half = len(lines) // 2
    assert [*keys.at_slots(0, half), *keys.at_slots(half, len(lines))] == list(keys.at_slots(0, len(lines)))


def test_an_unanswered_key_stands_where_it_was_first_mentioned_whichever_file_was_read_first() -> None:
    one, two = KeyIndex(), KeyIndex()
    for key, rank in ((k("a"), 70), (k("b"), 20), (k("a"), 10)):
        one.number(key, rank)
    for key, rank in ((k("b"), 20), (k("a"), 10), (k("a"), 70)):
        two.number(key, rank)
    assert [[keys.key(n).prompt_id for n in keys.unanswered()] for keys in (one, two)] == [["a", "b"], ["a", "b"]]


def test_without_a_rank_the_name_decides() -> None:
    keys = KeyIndex()
    for name in "cab":
        keys.number(k(name))
    assert [keys.key(n).prompt_id for n in keys.unanswered()] == ["a", "b", "c"]


def test_the_largest_repeat_does_not_run_into_the_next_prompt() -> None:
    keys = KeyIndex()
    numbers = [keys.number(k(prompt, repeat)) for prompt in ("a", "b") for repeat in (0, 999_999)]
    assert numbers == [0, 1, 2, 3] and keys.key(1) == k("a", 999_999)


@pytest.mark.timeout(120)
def test_a_log_with_more_cells_than_can_be_counted_is_refused_and_what_is_known_stays() -> None:
    keys = KeyIndex()
    for number in range(2**19):
        keys.number(k("p", model=f"m{number}"))
    with pytest.raises(Refused, match="more than 524288 cells in one bundle"):
        keys.number(k("p", model="one more"))
    assert len(keys) == 2**19 and len(keys.cells) == 2**19
    assert keys.number(k("p", model="m524287")) == 524_287 and keys.key(524_287) == k("p", model="m524287")
