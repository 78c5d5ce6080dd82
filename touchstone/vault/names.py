"""Note names and links. Pure.

Obsidian's links know no folders, so a name is to be unique in the whole vault: each begins with what the note is about.
Names hold no character that a link or a file system takes for something else; the real name stands in the aliases.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from touchstone.slugs import apart, hash8
from touchstone.vault.safe import Safe, label

MAX_NAME: Final = 80
"""Characters of the name proper; with the word before it and `.md` it stays below what file systems take."""
_FORBIDDEN: Final = re.compile(r'[\x00-\x1f\x7f\[\]#^|\\/:.*?"<>%`]+')
_ODD: Final = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def plain(name: str) -> str:
    """`name` as a part of a note's name; what cannot stand in one becomes a dash."""
    text = unicodedata.normalize("NFC", name)
    text = "".join(" " if unicodedata.category(char) in _ODD else char for char in text)
    text = " ".join(_FORBIDDEN.sub("-", text).split())
    while len(text.encode()) > 2 * MAX_NAME or len(text) > MAX_NAME:
        text = text[:-1]
    return text.strip("-_ ") or "x"


def names(kind: str, things: Iterable[str]) -> dict[str, str]:
    """Real name to note name: `<kind> <name>`, with eight digits where two would be the same or one was cut."""
    short = {thing: plain(thing) for thing in things}
    whole = {name for thing, name in short.items() if len(name) >= len(thing.strip("-_ ."))}
    found = apart(short, whole.__contains__, lambda thing: f"{short[thing]} {hash8(thing)}")
    return {thing: f"{kind} {name}" for thing, name in found.items()}


def link(note: str, text: str | None = None, *, table: bool = False) -> Safe:
    """A link to a note; in a table the bar before `text` would end the column and is escaped."""
    shown = label(text) if text is not None else None
    if shown is None or shown == note:
        return Safe(f"[[{note}]]")
    return Safe(f"[[{note}{chr(92) if table else ''}|{shown}]]")


def property_link(note: str) -> str:
    """A link as the value of a property."""
    return f"[[{note}]]"


def block_id(text: str) -> str:
    """Letters, digits and dashes that stand for `text` in this note."""
    return "ts-" + hash8(text)
