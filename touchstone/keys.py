"""Interning: each key becomes a small number, each answer line a slot. Pure.

A team's year is a million verdicts. Tuples of strings as dictionary keys would cost 234 bytes each, so cells and
prompts are numbered once and a key is one packed integer; all per-key figures then live in arrays under its number.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from touchstone.contracts.lines import Cell, Key
from touchstone.jsonsource import Refused

_REPEAT_BITS = 20
_PROMPT_BITS = 24
_CELL_BITS = 63 - _PROMPT_BITS - _REPEAT_BITS
_LAST = 2**62


def _next(taken: int, bits: int, what: str) -> int:
    if taken >> bits:
        raise Refused(f"more than {taken} {what} in one bundle")
    return taken


class KeyIndex:
    """Numbers keys by first appearance; knows which line of answers.jsonl each one came from first."""

    def __init__(self) -> None:
        self._cells: dict[Cell, int] = {}
        self._prompts: dict[str, int] = {}
        self._cell_list: list[Cell] = []
        self._prompt_list: list[str] = []
        self._ids: dict[int, int] = {}
        self._packed = array("q")
        self._slot = array("q")
        self._rank = array("q")
        self._by_slot = array("q")

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def cells(self) -> list[Cell]:
        """Cells by first appearance."""
        return self._cell_list

    @property
    def slots(self) -> int:
        """Lines of answers.jsonl seen so far, broken ones included."""
        return len(self._by_slot)

    def number(self, key: Key, rank: int = _LAST) -> int:
        """The number of `key`; a key seen for the first time gets the next one.

        `rank` says where it stood. Keys without an answer are ordered by their lowest rank, so that their order does
        not depend on which of two growing files was read first. Raises Refused where a bundle holds too many.
        """
        cell = Cell(key.model, key.variant)
        cell_no = self._cells.get(cell)
        if cell_no is None:
            cell_no = self._cells[cell] = _next(len(self._cell_list), _CELL_BITS, "cells")
            self._cell_list.append(cell)
        prompt_no = self._prompts.get(key.prompt_id)
        if prompt_no is None:
            prompt_no = _next(len(self._prompt_list), _PROMPT_BITS, "prompts")
            self._prompts[key.prompt_id] = prompt_no
            self._prompt_list.append(key.prompt_id)
        packed = (cell_no << (_PROMPT_BITS + _REPEAT_BITS)) | (prompt_no << _REPEAT_BITS) | key.repeat
        number = self._ids.get(packed)
        if number is None:
            number = self._ids[packed] = len(self._packed)
            self._packed.append(packed)
            self._slot.append(-1)
            self._rank.append(_LAST)
        if rank < self._rank[number]:
            self._rank[number] = rank
        return number

    def key(self, number: int) -> Key:
        """The key of that number."""
        packed = self._packed[number]
        model, variant = self._cell_list[packed >> (_PROMPT_BITS + _REPEAT_BITS)]
        prompt = self._prompt_list[(packed >> _REPEAT_BITS) & ((1 << _PROMPT_BITS) - 1)]
        return Key(model, variant, prompt, packed & ((1 << _REPEAT_BITS) - 1))

    def cell_number(self, number: int) -> int:
        """Which cell (index into `cells`) the key of that number belongs to."""
        return self._packed[number] >> (_PROMPT_BITS + _REPEAT_BITS)

    def answered(self, key: Key, slot: int) -> int:
        """Line `slot` of answers.jsonl is an answer to `key`; returns the key's number."""
        number = self.number(key)
        while len(self._by_slot) <= slot:
            self._by_slot.append(-1)
        if self._slot[number] < 0:
            self._slot[number] = slot
            self._by_slot[slot] = number
        return number

    def skipped(self, slot: int) -> None:
        """Line `slot` of answers.jsonl holds no readable answer."""
        while len(self._by_slot) <= slot:
            self._by_slot.append(-1)

    def slot(self, number: int) -> int | None:
        """The key's first line in answers.jsonl (from 0), None for a key without an answer."""
        slot = self._slot[number]
        return None if slot < 0 else slot

    def at_slots(self, start: int, stop: int) -> Iterator[int]:
        """Numbers of the keys whose slot is in [start, stop), in order."""
        for number in self._by_slot[start:stop]:
            if number >= 0:
                yield number

    def in_order(self) -> Iterator[int]:
        """All keys: by slot, then those without an answer by first appearance."""
        yield from self.at_slots(0, len(self._by_slot))
        yield from self.unanswered()

    def unanswered(self) -> list[int]:
        """Keys without an answer, by first appearance."""
        strays = [number for number, slot in enumerate(self._slot) if slot < 0]
        return sorted(strays, key=lambda number: (self._rank[number], self.key(number)))
