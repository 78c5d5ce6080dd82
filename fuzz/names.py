"""What strangers call their runs, files, packs and models, as names of our files: safe everywhere, one for each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from touchstone.docs import Doc, Docs
from touchstone.slugs import hash8, is_plain, reduced, slugs
from touchstone.vault.names import names

MOST: Final = 12
FORBIDDEN: Final = re.compile(r'[\x00-\x1f\x7f\[\]#^|\\/:.*?"<>%`]')


def distinct(found: Iterable[str]) -> None:
    folded = [unicodedata.normalize("NFKC", name).casefold() for name in found]
    assert len(set(folded)) == len(folded), folded


def check(data: bytes) -> None:
    given = [part.decode("utf-8", "surrogateescape") for part in data[:4000].split(b"\0")[:MOST]]
    # What we would call them is taken too.
    things = list(dict.fromkeys([*given, *(f"{reduced(name)}-{hash8(name)}" for name in given)]))
    addresses = slugs(things)
    assert list(addresses) == things and slugs(reversed(things)) == addresses
    distinct(addresses.values())
    assert all(map(is_plain, addresses.values()))
    words = [name for thing in things if (name := thing.encode("utf-8", "replace").decode())]
    notes = names("Model", [*words, *(name.removeprefix("Model ") for name in names("Model", words).values())])
    distinct(notes.values())
    for note in notes.values():
        assert note.startswith("Model ") and not FORBIDDEN.search(note) and len(note.encode()) < 250, note
    files = [name for word in words if (name := "/".join(p for p in word.split("/") if p not in ("", ".", "..")))]
    docs = Docs(tuple(Doc(f"{name}.md", "x") for name in dict.fromkeys(files)))
    paths = [page.path for page in docs.pages]
    distinct(paths)
    folded = {unicodedata.normalize("NFKC", path).casefold() for path in paths}
    for path in paths:
        stem = path.removesuffix(".html")
        assert path == f"{stem}.html" and stem.startswith("docs/") and all(map(is_plain, stem.split("/"))), path
        assert not folded & {str(above).casefold() for above in PurePosixPath(path).parents}
