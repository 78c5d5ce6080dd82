"""Folder names: a plain name stays, anything else gets an address of its own that leads nowhere else."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import PACK, bundle
from touchstone.build import build
from touchstone.options import Options
from touchstone.slugs import hash8, hash64, is_plain, reduced, slugs


@pytest.mark.parametrize(
    "name",
    ["2026-06-20_104844_eval_ndassist", "a", "a b", "a.b", "ü ß 100 % #1 & Co", "x" * 100, "ü" * 100, "日" * 80,
     "nulla", "console", "com", "com10", "-", "~x", "a" * 99 + "."[:0] + "b", "(1)", "a'b"],
    ids=ascii,
)  # fmt: skip
def test_plain_names_stay(name: str) -> None:
    assert slugs([name]) == {name: name}


@pytest.mark.parametrize(
    "name",
    ["../x", "..", ".", "/x", "a/b", "a\\b", "C:", "c:x", ".hidden", "_x", "x.", "x ", "", "a\0b", "a\nb", "\x7f",
     "a\tb", 'a"b', "<x>", "a|b", "a?b", "a*b",
     "con", "CON", "Con.txt", "nul", "prn", "aux.tar.gz", "COM1", "lpt9.log",
     "com¹", "conin$", "CONOUT$", "x" * 101, "x" * 300, "日" * 81, "😀" * 61, "e\u0301", "\u202eabc", "a\u200bb",
     "\ufeffx", "\ue000", "\ud800", "\uffff"],
    ids=ascii,
)  # fmt: skip
def test_all_other_names_get_an_address(name: str) -> None:
    slug = slugs([name])[name]
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,59})-[0-9a-f]{8}", slug) and slug.endswith(hash8(name))
    assert slugs([name])[name] == slug, "always the same"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("../x", "x"),
        ("Über Größe", "uber-groe"),
        ("a/b c", "a-b-c"),
        ("日本", "run"),
        ("", "run"),
        ("--", "run"),
        ("x" * 300, "x" * 60),
        ("y" * 59 + "/z", "y" * 59),
    ],
    ids=ascii,
)
def test_reduced(name: str, short: str) -> None:
    assert reduced(name) == short


@pytest.mark.parametrize(
    "names",
    [["Run", "run"], ["RUN", "Run", "run"], ["STRASSE", "straße"], ["ﬁne", "fine"], ["①", "1"], ["\u212b", "\xc5"]],
    ids=["two cases", "three cases", "sharp s", "ligature", "circled digit", "angstrom sign"],
)
def test_names_that_a_file_system_may_take_for_one_all_give_way(names: list[str]) -> None:
    found = slugs(names)
    assert all(slug != name for name, slug in found.items())
    assert len({slug.casefold() for slug in found.values()}) == len(names)


def test_look_alikes_that_are_no_case_of_each_other_keep_their_names() -> None:
    names = ["paypal", "p\u0430yp\u0430l"]  # Latin, Cyrillic
    assert slugs(names) == {name: name for name in names}


def chain() -> list[str]:
    """Names of which each is what we would call the one before it."""
    first = "a:b"
    second = f"a-b-{hash8(first)}"
    third = f"a-b-{hash64(first)}"
    fourth = f"{reduced(third)[:30]}-{hash64(third)}"
    return [first, second, third, fourth]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_names_made_to_collide_with_our_addresses_do_not(count: int) -> None:
    names = chain()[:count]
    found = slugs(names)
    assert len({slug.casefold() for slug in found.values()}) == count
    assert slugs(reversed(names)) == found, "whatever the order"


@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*chain(), "A", "a", "a-b", "A:B"])), unique=True))
def test_any_names_have_safe_addresses_of_their_own(names: list[str]) -> None:
    found = slugs(names)
    assert list(found) == names and slugs(reversed(names)) == found
    assert len({unicodedata.normalize("NFKC", slug).casefold() for slug in found.values()}) == len(names)
    for slug in found.values():
        assert is_plain(slug) and len(slug) <= 100 and len(slug.encode()) <= 240
        assert not set(slug) & set('/\\:\0<>"|?*') and slug not in (".", "..")


def test_hashes_are_sha256() -> None:
    assert hash64("x") == hashlib.sha256(b"x").hexdigest() and hash8("x") == hash64("x")[:8]


def test_packs_called_like_each_other_s_address_have_a_page_each(tmp_path: Path) -> None:
    oldest = PACK.replace("By hand", "another")
    sha = hashlib.sha256(oldest.encode()).hexdigest()
    taken = ["hand", f"hand-{sha[:8]}", f"hand-{sha}", f"hand-{hash64(f'hand-{sha[:8]}')}"]
    packs = [oldest, *(PACK.replace("id: hand", f"id: {name}") for name in taken)]
    for day, pack in enumerate(packs, start=1):
        bundle(tmp_path / "runs" / f"r{day}", pack=pack, manifest=f"created: 2026-01-{day:02}T00:00:00Z\n")
    build(Options(runs=tmp_path / "runs", out=tmp_path / "out", state_home=tmp_path))
    pages = [path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "packs").glob("*/index.html")]
    assert len(pages) == len(packs) and sum("another" in page for page in pages) == 1
