"""Folder names that are safe in every file system and URL. Pure. No text from a file decides a path elsewhere."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

MAX_NAME: Final = 100
"""Characters."""
_MAX_BYTES: Final = 240
"""File systems take 255 for one name, and the folder's files are written beside themselves first."""
_DEVICES: Final = re.compile(r"(?i)^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?$")
_UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')


def hash8(text: str) -> str:
    """Eight hex digits that stand for `text`."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def hash64(text: str) -> str:
    """The whole sha256 of `text`, where eight digits could be somebody's intention."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_plain(name: str) -> bool:
    """Whether `name` can be a folder's name as it is."""
    return (
        0 < len(name) <= MAX_NAME
        and len(name.encode("utf-8", "surrogatepass")) <= _MAX_BYTES
        and name[0] not in "._"
        and name[-1] not in ". "
        and not _UNSAFE.search(name)
        and not _DEVICES.match(name)
        and unicodedata.normalize("NFC", name) == name
        and all(unicodedata.category(char) not in ("Cs", "Cf", "Co", "Cn") for char in name)
    )


def reduced(name: str) -> str:
    """`name` in lower-case ASCII letters, digits and dashes, at most 60 characters."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:60].strip("-") or "run"


def slugs(paths: Iterable[str]) -> dict[str, str]:
    """Relative bundle path (with /) to its folder name in the site: itself where that is safe and unique."""
    names = {name: name for name in paths}
    return apart(names, is_plain, lambda name: f"{reduced(name)}-{hash8(name)}")


def apart(wanted: Mapping[str, str], usable: Callable[[str], bool], other: Callable[[str], str]) -> dict[str, str]:
    """Thing to the name that it wants, where that is usable and no file system takes it for another one's.

    Else to `other(thing)`, and should that be taken too, to one that nobody can have on purpose.
    """
    folded = Counter(map(_folded, wanted.values()))
    result = {
        thing: name if usable(name) and folded[_folded(name)] == 1 else other(thing) for thing, name in wanted.items()
    }
    # A thing can be called what we would call another one, and a third one what we would call it then.
    while twice := {name for name, count in Counter(map(_folded, result.values())).items() if count > 1}:
        for thing, name in result.items():
            if _folded(name) in twice:
                result[thing] = f"{reduced(thing)[:30]}-{hash64(thing)}"
    return result


def _folded(name: str) -> str:
    """What a file system without case, or with forms of its own, may take `name` for."""
    return unicodedata.normalize("NFKC", name).casefold()
