"""Folder names that are safe in every file system and URL. Pure. No text from a file decides a path elsewhere."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
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
    names = list(paths)
    folded = Counter(unicodedata.normalize("NFKC", name).casefold() for name in names)
    result = {}
    for name in names:
        unique = folded[unicodedata.normalize("NFKC", name).casefold()] == 1
        result[name] = name if is_plain(name) and unique else f"{reduced(name)}-{hash8(name)}"
    # A folder can be called what we would call another one, and a third one what we would call it then.
    while twice := [slug for slug, count in Counter(map(str.casefold, result.values())).items() if count > 1]:
        for name, slug in result.items():
            if slug.casefold() in twice:
                result[name] = f"{reduced(name)[:30]}-{hash64(name)}"
    return result
