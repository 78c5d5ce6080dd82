"""What becomes of a note that is there already: ours is renewed, what the user wrote into it stays. Pure.

A note of ours has the property `ts_made_by: touchstone`, and ends in a line that says so (an Obsidian comment, which
readers do not see). What stands below that line is the user's, and so are properties that we did not write, and what
was added to `tags`, `aliases` and `cssclasses`. A note without the property is somebody else's; one without the line
cannot be told apart from what was added, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from touchstone.judge_compare import parse_frontmatter
from touchstone.vault.properties import LISTS, MAKER, OURS, Value, frontmatter

MARKER: Final = (
    "%% touchstone:end · The lines above are made by touchstone and are replaced by its next build."
    " Write below this line: that stays. %%"
)
_MARKER: Final = re.compile(r"(?m)^%% touchstone:end\b.*$")
_BLOCK: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY: Final = re.compile(
    r"""^(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^\s#'"\-:&*!|>%@`{}\[\],?][^:]*?|-[^\s:][^:]*?)):(?:\s|$)"""
)

Fault = Literal["foreign", "no marker"]


@dataclass(frozen=True, slots=True)
class Found:
    """A note of ours as it stands on disk."""

    properties: Mapping[str, object]
    foreign: str
    """The lines of properties that are not ours, as they stand."""
    added: str
    """What stands below the marker, from the end of its line."""

    def added_to(self, name: str, ours: Sequence[str]) -> list[str]:
        """What the user put into one of Obsidian's own lists; `ours` is what we had put there."""
        value = self.properties.get(name)
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [item for item in items if isinstance(item, str) and item not in ours]

    @property
    def touched(self) -> bool:
        """Whether the user wrote anything into the note."""
        return bool(self.added.strip() or self.foreign.strip())


def read(text: str) -> Found | Fault:
    """A note as it stands; what it is if it is none of ours."""
    block = _BLOCK.match(text)
    fields = parse_frontmatter(text)
    if block is None or fields is None or fields.get(OURS) != MAKER:
        return "foreign"
    marks = list(_MARKER.finditer(text, block.end()))
    if not marks:
        return "no marker"
    # The first one: a copy of it further down is part of what the user wrote.
    return Found(fields, _foreign(block[1]), text[marks[0].end() :])


def _foreign(block: str) -> str:
    """The lines of keys that are not ours, with the lines that belong to them."""
    kept, ours = [], True
    for each in block.splitlines(keepends=True):
        found = _KEY.match(each)
        if found is not None:
            name = next(group for group in found.groups() if group is not None).strip()
            ours = name.startswith("ts_") or name in LISTS
        if not ours:
            kept.append(each)
    return "".join(kept)


def compose(
    properties: Mapping[str, Value], body: str, found: Found | None, earlier: Mapping[str, Sequence[str]]
) -> str:
    """The note as it is to stand. `earlier`: what an earlier build had put into LISTS, where it is known."""
    fields = dict(properties)
    added = "\n"
    foreign = ""
    if found is not None:
        for name in LISTS:
            ours = _strings(properties[name])
            fields[name] = [*ours, *found.added_to(name, [*ours, *earlier.get(name, ())])]
        foreign, added = found.foreign, found.added
    if foreign and not foreign.endswith("\n"):
        foreign += "\n"
    return f"---\n{frontmatter(fields)}{foreign}---\n{body.strip()}\n\n{MARKER}{added}"


def _strings(value: Value) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []
