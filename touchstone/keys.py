"""Interning: each key becomes a small number, each answer line a slot. Pure.

A team's year is a million verdicts. Tuples of strings as dictionary keys would cost 234 bytes each, so cells and
prompts are numbered once and a key is one packed integer; all per-key figures then live in arrays under its number.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

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
        self._forgotten = 0
        self._answered = 0
        self._strays: list[int] | None = None
        self._stray_places: dict[int, int] = {}
        self.moves = 0
        """Counts how often a key's place changed after it was first seen: orders kept elsewhere are void then."""
        self.touched: set[int] | None = None
        """Numbers of the keys that lines came for since `take_touched`; None: nobody follows, or all of them."""

    @classmethod
    def of_cells(cls, cells: Iterable[Cell], slots: int) -> KeyIndex:
        """An index that has forgotten its keys: it only knows cells, and how many answer lines there were."""
        index = cls()
        index._cell_list = list(cells)
        index._cells = {cell: number for number, cell in enumerate(index._cell_list)}
        index._forgotten = slots
        return index

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def cells(self) -> list[Cell]:
        """Cells by first appearance."""
        return self._cell_list

    @property
    def slots(self) -> int:
        """Lines of answers.jsonl seen so far, broken ones included."""
        return self._forgotten or len(self._by_slot)

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
            self._rank.append(rank)
            self._new_stray(number)
        elif rank < self._rank[number]:
            self._rank[number] = rank
            if self._slot[number] < 0:
                self._moved()
        return number

    def _new_stray(self, number: int) -> None:
        """Most come in order; else the order is found anew when somebody asks."""
        strays = self._strays
        if strays is None:
            return
        if strays and self._stray_order(strays[-1]) > self._stray_order(number):
            self._moved()
            return
        self._stray_places[number] = len(strays)
        strays.append(number)

    def _moved(self) -> None:
        self.moves += 1
        self._strays = None

    def _stray_order(self, number: int) -> tuple[int, Key]:
        return self._rank[number], self.key(number)

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
        known = len(self._packed)
        number = self.number(key)
        self.skipped(slot)
        if self._slot[number] < 0:
            self._slot[number] = slot
            self._by_slot[slot] = number
            self._answered += 1
            if number < known:
                self._moved()
            elif self._strays:
                # It was never without an answer.
                self._strays.pop()
                del self._stray_places[number]
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

    @property
    def strays(self) -> int:
        """How many keys have no answer."""
        return len(self._packed) - self._answered

    def unanswered(self) -> Sequence[int]:
        """Keys without an answer, by first appearance."""
        if self._strays is None:
            numbers = (number for number, slot in enumerate(self._slot) if slot < 0) if self.strays else ()
            self._strays = sorted(numbers, key=self._stray_order)
            self._stray_places = {number: place for place, number in enumerate(self._strays)}
        return self._strays

    def stray_place(self, number: int) -> int:
        """The place (from 0) of a key without an answer among those. Raises KeyError for any other."""
        self.unanswered()
        return self._stray_places[number]

    def place(self, number: int) -> tuple[int, int]:
        """Orders keys as `in_order` does."""
        slot = self._slot[number]
        return (0, slot) if slot >= 0 else (1, self.stray_place(number))

    # -- what lines came for

    def touch(self, number: int) -> None:
        """A line about key `number` was read."""
        if self.touched is not None:
            self.touched.add(number)

    def take_touched(self) -> frozenset[int] | None:
        """Numbers touched since the last call, which starts the following; None the first time: all of them."""
        touched, self.touched = self.touched, set()
        return None if touched is None else frozenset(touched)
