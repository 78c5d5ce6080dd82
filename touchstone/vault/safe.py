"""Text of models and strangers as Markdown that Obsidian shows as that text, and nothing else. Pure.

A vault runs more than a web page does: plugins execute `<% %>` (Templater), `dataviewjs` blocks and inline queries
(Dataview), `key:: value` becomes data, `[[…]]` a link, `![[…]]` an embed, `%%` hides what follows. Some of them look at
the raw file, so an escape must break the pattern itself, not only its rendering: a backslash between the two characters
does both. `Safe` marks what is Markdown already; templates escape everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from touchstone.jsonsource import visible
from touchstone.judge_events import shorten

MAX_LINE: Final = 300
"""Characters of a text that stands in one line; what is longer is cut on a word."""
MAX_TEXT: Final = 4_000
"""Characters of a text with paragraphs."""

_SPECIAL: Final = re.compile(r"[\\`*_~\[\]<>|#^$%&=]|(?<=:)[:/]")
# What starts a list, a heading's underline or a rule where a line begins.
_LEADING: Final = re.compile(r"^(\d{1,9})([.)])(?=\s|$)|^([-+])(?=[-+\s]|$)")
_LABEL: Final = re.compile(r"[^\w .,;:()+/@·–—'’!?&-]|(?<=:)[:/]")


class Safe(str):
    """Markdown of ours; everything in it that came from elsewhere is escaped."""

    __slots__ = ()


def inline(text: object) -> Safe:
    """Text in one line, wherever it stands: in a sentence, a table, a callout or a list."""
    if isinstance(text, Safe):
        return text
    flat = " ".join(visible(str(text)).split())
    return Safe(_LEADING.sub(r"\1\\\2\3", _SPECIAL.sub(r"\\\g<0>", flat)))


def line(text: str | None) -> Safe:
    """One line of at most MAX_LINE characters; a dash for None."""
    return inline(shorten(text, MAX_LINE) or "—")


def prose(text: str | None, before: str = "") -> Safe:
    """Text with its paragraphs and line breaks; each line starts with `before` (`> ` in a callout)."""
    text = (text or "").strip()
    if len(text) > MAX_TEXT:
        text = text[: MAX_TEXT - 1].rstrip() + "…"
    return quoted("\n".join(inline(each) for each in text.splitlines()), before)


def quoted(markdown: str, before: str) -> Safe:
    """Markdown of ours with `before` at the start of each line."""
    return Safe("\n".join((before + each).rstrip() for each in markdown.split("\n")))


def label(text: str) -> str:
    """Text as the name that a link shows: Obsidian takes it as it is, so nothing in it may end the link."""
    return " ".join(_LABEL.sub(" ", " ".join(visible(text).split())).split())[:MAX_LINE].strip() or "?"


# -- Markdown that a program or a person wrote, of which the harmless part stays

_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
# No text of theirs makes a link of its own.
_PARSER.validateLink = lambda url: False  # type: ignore[method-assign]
_MARKS: Final = {"strong_open": "**", "strong_close": "**", "em_open": "*", "em_close": "*"}
_TASK: Final = re.compile(r"^\\\[([ xX])\\\] ")


def document(text: str, below: int = 2) -> Safe:
    """Headings, paragraphs, lists (also tasks), quotes, tables and emphasis of `text`; all else is text.

    Its first level of headings becomes `below`.
    """
    return Safe("\n".join(_blocks(_PARSER.parse(visible(text)), below)).strip())


def _blocks(tokens: Sequence[Token], below: int) -> Iterator[str]:
    indents: list[str] = []
    bullets: list[int | None] = []
    row: list[str] = []
    rule: list[str] = []
    pending = ""
    for position, token in enumerate(tokens):
        match token.type:
            case "bullet_list_open":
                bullets.append(None)
            case "ordered_list_open":
                bullets.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                bullets.pop()
                if not bullets:
                    yield ""
            case "list_item_open":
                number = bullets[-1]
                pending = "- " if number is None else f"{number}. "
                bullets[-1] = None if number is None else number + 1
                indents.append(" " * len(pending))
            case "list_item_close":
                indents.pop()
                pending = ""
            case "blockquote_open":
                indents.append("> ")
            case "blockquote_close":
                indents.pop()
                yield ""
            case "inline":
                text = _inline(token)
                kind = tokens[position - 1].type
                if kind in ("th_open", "td_open"):
                    right = tokens[position - 1].attrGet("style") == "text-align:right"
                    rule.append("---:" if right else "---")
                    row.append(text.replace("\n", " "))
                    continue
                head = "".join(indents[:-1] if pending else indents) + pending
                if pending:
                    text = _TASK.sub(r"[\1] ", text)
                pending = ""
                if kind == "heading_open":
                    level = min(6, int(tokens[position - 1].tag[1]) + below - 1)
                    head += "#" * level + " "
                yield head + text.replace("\n", "\n" + "".join(indents))
                if not bullets:
                    yield ""
            case "tr_close":
                yield "| " + " | ".join(row) + " |"
                if tokens[position + 1].type == "thead_close":
                    yield "| " + " | ".join(rule) + " |"
                row, rule = [], []
            case "table_close":
                yield ""
            case "fence" | "code_block":
                # A fence could name a plugin's language; as text it says the same.
                yield from (str(quoted(prose(token.content), "".join(indents) + "> ")), "")
            case _:
                pass


def _inline(token: Token) -> str:
    parts: list[str] = []
    start = True
    for child in token.children or ():
        if child.type in _MARKS:
            parts.append(_MARKS[child.type])
            continue
        if child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
            start = True
            continue
        text = _SPECIAL.sub(r"\\\g<0>", child.content)
        parts.append(_LEADING.sub(r"\1\\\2\3", text) if start else text)
        start = False
    return "".join(parts)
