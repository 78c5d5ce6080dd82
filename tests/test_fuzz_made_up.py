"""What hypothesis makes of the corpus: pieces taken out, put in, doubled and joined; always the same ones in a run.

`make fuzz` does the same for as long as one likes, guided by what the code does with it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CORPUS: Final = Path(__file__).parent.parent / "fuzz" / "corpus"
LONGEST: Final = 20_000
EXAMPLES: Final = {
    "logs": 400,
    "cuts": 200,
    "yaml": 150,
    "front": 250,
    "replies": 250,
    "stream": 300,
    "refusals": 200,
    "markup": 100,
    "rows": 20,
    "vault": 120,
    "names": 80,
    "http": 120,
    "hub": 80,
}

TOKENS: Final = [
    *(b'"', b"'", b"{", b"}", b"[", b"]", b":", b",", b"\n", b"\r", b"\t", b"\0", b"\\", b"\\u0000", b"\\ud800"),
    *(b"<", b">", b"&", b"&#0;", b"<b x=y>", b"-->", b"]]>", b"|", b"`", b"*", b"_", b"#", b"- ", b"> ", b"![a](b)"),
    *(b"NaN", b"-0", b"1e999", b"99999999999999999999", b"true", b"null", b"no", b"~", b"*a", b"&a ", b"!!x ", b"---"),
    *(b"data: ", b"\n\n", b"\r\n\r\n", b"%00", b"%2e%2e/", b"../", b" HTTP/1.1", b"Host: x", b"Content-Length: -1"),
    *(b"\xff", b"\xed\xa0\x80", "\u202e".encode(), "\ufeff".encode(), "😀".encode(), "\u2028".encode()),
]

piece = st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8), st.text(max_size=4).map(str.encode))
edit = st.tuples(
    st.sampled_from(["in", "out", "over", "twice", "cut", "join"]), st.integers(0, 2**16), st.integers(0, 400), piece
)


@lru_cache(maxsize=16)
def seeds(target: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes()[:LONGEST] for path in sorted((CORPUS / target).iterdir()))


def edited(data: bytes, kind: str, place: int, length: int, new: bytes, other: bytes) -> bytes:
    """`data` with one change."""
    at = place % (len(data) + 1)
    end = min(len(data), at + length)
    match kind:
        case "in":
            return data[:at] + new + data[at:]
        case "out":
            return data[:at] + data[end:]
        case "over":
            return data[:at] + new + data[at + len(new) :]
        case "twice":
            return data[:end] + data[at:end] * 3 + data[end:]
        case "cut":
            return data[:at]
        case _:
            return data[:at] + other[place % (len(other) + 1) :]


def made(target: str) -> st.SearchStrategy[bytes]:
    """Inputs for a target: a seed with a few changes, or nothing known at all."""
    known = st.sampled_from(seeds(target))

    def change(parts: tuple[bytes, bytes, list[tuple[str, int, int, bytes]]]) -> bytes:
        data, other, edits = parts
        for kind, place, length, new in edits:
            data = edited(data, kind, place, length, new, other)
        return data[:LONGEST]

    return st.one_of(st.tuples(known, known, st.lists(edit, max_size=6)).map(change), st.binary(max_size=200))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("target", EXAMPLES)
def test_nothing_made_up_breaks_a_promise(target: str) -> None:
    check = import_module(f"fuzz.{target}").check

    @settings(
        max_examples=EXAMPLES[target],
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(made(target))
    def run(data: bytes) -> None:
        check(data)

    run()


def test_the_server_lives_on() -> None:
    from fuzz.http import alive, ask

    for seed in seeds("http"):
        ask(seed)
    assert alive()
