"""YAML out of what came back from a chat window: fences, prose around it, tabs, quote marks of a mail. Pure.

Only the wrapping is taken off; what is inside stays as it was written, and keeps its line numbers. Where it is not
clear what belongs to the document, nothing is cut off, so that the reader of the YAML refuses it and says where.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from touchstone import yamlsource

_SPACES: Final = re.compile(r"^[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_INVISIBLE: Final = str.maketrans("", "", "\u200b\u2060\ufeff")
_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})[^`]*$")
_TAB_WIDTHS: Final = (2, 4, 8)
_INDENTED: Final = re.compile(r"^[ ]*\t", re.MULTILINE)
_NODES: Final = 100_000
"""Values of a document that is looked for; what is larger is left to the reader, who refuses it."""


def yaml_blocks(text: str, keys: Collection[str], inner: Collection[str]) -> list[str]:
    """The parts of `text` that are a document with some of the top-level `keys`, else the text itself.

    `inner` are keys further inside: where one of them stands outside of all parts, something was torn apart.
    Each part begins with as many empty lines as stand before it in the text.
    """
    lines = [_clean(line) for line in text.translate(_INVISIBLE).splitlines()]
    if any(lines) and all(line.startswith(">") for line in lines if line.strip()):
        lines = [re.sub(r"^> ?", "", line) for line in lines]
    whole = "\n".join(lines)
    if _fits(whole, keys):
        return [whole]
    top = re.compile(rf"""^\s*(["']?)({"|".join(map(re.escape, keys))})\1\s*:""")
    spans = [span for span in _fenced(lines) if _holds(lines, span, top)]
    if not spans:
        spans = list(_bare(lines, top))
    torn = re.compile(rf"""^\s*(-\s+)?(["']?)({"|".join(map(re.escape, inner))})\2\s*:""")
    inside = {number for start, stop in spans for number in range(start, stop)}
    if not spans or any(torn.match(line) for number, line in enumerate(lines) if number not in inside):
        return [_untabbed(whole)]
    return ["\n" * start + _untabbed("\n".join(lines[start:stop])) for start, stop in spans]


def _clean(line: str) -> str:
    """With ordinary spaces where a chat tool puts others for the indentation; tabs stay for now."""
    found = _SPACES.match(line)
    if found is None:
        return line
    return re.sub(r"[^\t]", " ", found[0]) + line[found.end() :]


def _fits(text: str, keys: Collection[str]) -> bool:
    try:
        value = yamlsource.load(text, "", _NODES).value
    except yamlsource.Unreadable:
        return False
    return isinstance(value, dict) and bool(value) and all(key in keys for key in value)


def _holds(lines: list[str], span: tuple[int, int], top: re.Pattern[str]) -> bool:
    return any(top.match(line) or line.strip().startswith("{") for line in lines[span[0] : span[1]])


def _fenced(lines: list[str]) -> Iterator[tuple[int, int]]:
    """What stands between fences, as (first line, line after the last); a fence that nobody closes goes to the end."""
    opened: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if opened is None:
            if found is not None:
                opened = found[1], number + 1
        elif found is not None and line.strip().startswith(opened[0]) and not line.strip().strip(opened[0][0]):
            yield opened[1], number
            opened = None
    if opened is not None:
        yield opened[1], len(lines)


def _bare(lines: list[str], top: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Runs of lines that belong to a document without fences."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("{"):
            ends = [at for at in range(number, len(lines)) if lines[at].rstrip().endswith("}")]
            if not ends:
                return
            yield number, ends[-1] + 1
            number = ends[-1] + 1
        elif top.match(line):
            indent = len(line) - len(line.lstrip())
            start = number
            number += 1
            while number < len(lines) and _goes_on(lines[number], indent, top):
                number += 1
            yield start, number
        else:
            number += 1


def _goes_on(line: str, indent: int, top: re.Pattern[str]) -> bool:
    text = line.strip()
    if not text or text.startswith("#") or len(line) - len(line.lstrip()) > indent:
        return True
    return text in ("-", "...") or text.startswith("- ") or top.match(line) is not None


def _untabbed(text: str) -> str:
    """With spaces for the tabs at the start of lines, which YAML does not take, in the first width that fits.

    Where that is of no use, with ordinary spaces for those that do not break.
    """
    return next((each for each in _readings(text) if _loads(each)), text)


def _readings(text: str) -> Iterator[str]:
    """The ways to read it that differ; to look whether a large text can be read takes seconds."""
    if _INDENTED.search(text):
        yield text
        yield from _spaced(text)
    if "\u00a0" in text:
        yield text.replace("\u00a0", " ")


def _spaced(text: str) -> Iterator[str]:
    for width in _TAB_WIDTHS:
        lines = (re.match(r"[ \t]*", line) for line in text.split("\n"))
        yield "\n".join(found[0].expandtabs(width) + found.string[found.end() :] for found in lines if found)


def _loads(text: str) -> bool:
    try:
        yamlsource.load(text, "", _NODES)
    except yamlsource.Unreadable:
        return False
    return True
