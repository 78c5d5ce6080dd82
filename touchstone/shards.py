"""Which keys fall to whom when a bundle is judged in parts, and which ones make up a sample. Pure.

Both go by a hash of the key alone: every machine finds the same without having talked to another, whatever the order
of the answers and whatever else is in the bundle.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from touchstone.contracts.lines import Key

MOST_SHARDS: Final = 10_000

_WRITTEN: Final = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", re.ASCII)


def _number(purpose: str, key: Key) -> int:
    """A number of 256 bits that depends on nothing else; another purpose gives an independent one."""
    return int.from_bytes(hashlib.sha256(json.dumps([purpose, *key]).encode()).digest(), "big")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `k` (1..n) of `n`."""

    k: int
    n: int

    def __post_init__(self) -> None:
        """Raises ValueError where there is no such part."""
        if not 1 <= self.n <= MOST_SHARDS:
            raise ValueError(f"the number of shards must be 1..{MOST_SHARDS}, not {self.n}")
        if not 1 <= self.k <= self.n:
            raise ValueError(f"shards are counted from 1 to {self.n}, so there is no {self.k}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`2/8` as written on the command line. Raises ValueError with the way to mend it."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:40]!r} is no shard; write one like 2/8, the second of eight")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.k}/{self.n}"

    def holds(self, key: Key) -> bool:
        """Whether this key belongs here; every key belongs to exactly one of the n shards."""
        return _number("shard", key) % self.n == self.k - 1


def sample(keys: Iterable[Key], size: int) -> frozenset[Key]:
    """`size` of the keys, or all if there are fewer. A larger sample holds every smaller one."""
    return frozenset(sorted(set(keys), key=lambda key: (_number("sample", key), key))[: max(size, 0)])
