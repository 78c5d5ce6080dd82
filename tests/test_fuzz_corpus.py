"""The kept corpus of `make fuzz`: inputs that are odd, long, deep or torn, and those that were once too much."""

from __future__ import annotations

import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from fuzz import TARGETS

CORPUS: Final = Path(__file__).parent.parent / "fuzz" / "corpus"
MOST_BYTES: Final = 64 * 1024 * 1024


def test_every_target_has_seeds() -> None:
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(TARGETS)
    assert all(len(list((CORPUS / target).iterdir())) >= 3 for target in TARGETS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_holds_in_bounded_memory(target: str) -> None:
    check = import_module(f"fuzz.{target}").check
    check(b"")  # what is made once, is made now
    for path in sorted((CORPUS / target).iterdir()):
        data = path.read_bytes()
        tracemalloc.start()
        try:
            check(data)
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES, path.name
        finally:
            tracemalloc.stop()
