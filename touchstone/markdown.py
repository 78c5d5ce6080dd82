"""Markdown that a model or a person wrote, as safe HTML. Pure.

pulldown-cmark (by way of pyromark) reads the text as events, in linear time; `Writer` alone makes HTML of them. So
nothing reaches a page that is not written here: texts are escaped, raw HTML is text, a picture is its alternative
text, and a link that does not lead to an absolute web or mail address is its words. Formulas stay as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html import escape
from string import punctuation
from typing import Any, Final, cast
from urllib.parse import quote

from markupsafe import Markup
from pyromark import Options, events

from touchstone.jsonsource import visible

Event = str | dict[str, Any]
"""What pyromark says, as `pyromark.event.Event` types it: "SoftBreak", {"Text": "…"}, {"Start": "Paragraph"}, …"""

MAX_DEPTH: Final = 100
"""Quotes, lists and marks in one another; what is deeper is text. Browsers stop at 512 elements."""
MAX_EMPTY: Final = 2000
"""Cells of a text; what is more is left out where it ends a row: the parser fills up rows however wide the table."""
_OPTIONS: Final = Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS
# What a model calls relative leads nowhere in this site, or out of it (`//host`, `file:` pages).
_SAFE_LINK: Final = re.compile(r"(?i)(https?://[^/\s]|mailto:\S)")
_IN_URLS: Final = "!#$%&'()*+,-./:;=?@_~[]"
_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdfb\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


@lru_cache(maxsize=128)
def _remembered(text: str, below: int) -> Markup:
    return Markup(Writer(below, mirrored=mirrored(text)).html(read(text)))


def markdown(text: str, below: int = 3) -> Markup:
    """`text` as HTML; its headings are put below the page's own: the first level becomes `below`."""
    # Each language has a page of its own with the same text.
    return _remembered(text, below) if len(text) < 10_000 else _remembered.__wrapped__(text, below)


def mirrored(text: str) -> bool:
    """Whether some of the text is written from right to left."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None


# -- reading

# What the parser shall take for text goes through it as other characters, one for each ASCII punctuation mark. They
# are musical signs of old Byzantium: symbols to the parser, like the marks themselves. Those that a text has of its own
# go through it behind one more.
_STAND_INS: Final = {ord(mark): 0x1D000 + place for place, mark in enumerate(punctuation)}
_OWN: Final = "\U0001d020"
_MARKS: Final = {chr(stand_in): chr(mark) for mark, stand_in in _STAND_INS.items()}
_ESCAPED: Final = {stand_in: escape(mark) for stand_in, mark in _MARKS.items()}
_STANDING_IN: Final = re.compile(f"{_OWN}(.)|[{''.join(_MARKS)}]")
_SIGNS: Final = re.compile(f"[{''.join(_MARKS)}{_OWN}]")

_SPECIAL: Final = re.compile(
    r"""
    [\\$<~&] (?:
        (?<=\$)(?<![\w$]\$) (?:
            \$ (?: [^$\\`\n] | \\.?+ | \n(?![ \t]*\n) )++ \$\$               # formulas: $$ … $$ in one paragraph,
          | (?![\s$]) (?: [^$\\`|\n\]] | \](?!\() | \\.?+ )++ (?<!\s)\$(?![\w$])  # $…$ in one line, no prices,
        )
      | (?<=\\) (?:
            \[ (?: [^\\`\n] | \\(?![\[\]]).?+ | \n(?![ \t]*\n) )*+ \\\]       # \[ … \],
          | \( (?: [^\\`\n] | \\(?![()]).?+ )*+ \\\)                          # \( … \)
          | [!-/:-@\[-`{-~]                                                  # an escape, for the parser
        )
      | (?<=<)(?<!\]\(<)(?<!\]:[ ]<)                                         # a tag: no address follows
        (?! [a-zA-Z][\w+.-]{1,31}: | [\w.!#$%&'*+/=?^`{|}~-]+@ )
      | (?<=~)(?<!~~)(?!~)                                                  # "5~10": about, not struck out
      | (?<=&) \#[xX]?[0-9a-fA-F]+;                                         # a character by its number
    )
    """,
    re.VERBOSE | re.ASCII,
)
_LEAD: Final = re.compile(r"[ \t]*(?:>[ \t]?)*")
# Each later line is compared with every open quote and list: time is lines × depth.
_DEEP: Final = re.compile(
    rf"^((?:[ \t]*(?:>|(?:[-+*]|\d{{1,9}}[.)])(?=[ \t]))){{{MAX_DEPTH}}})(.*)", re.MULTILINE | re.ASCII
)
_LONG: Final = 5000
"""Characters; a shorter text is read in milliseconds, however deep."""


def read(text: str) -> Iterator[Event]:
    """The events of a text. Their strings hold stand-ins: `shown` gives them back, `Writer.html` does it itself."""
    text = visible(text)
    if not text.isascii():
        text = _SIGNS.sub(rf"{_OWN}\g<0>", text)
    if len(text) > _LONG:
        text = _DEEP.sub(lambda line: line[1] + line[2].translate(_STAND_INS), text)
    return cast("Iterator[Event]", events(_SPECIAL.sub(_hidden, text), options=_OPTIONS))


def shown(text: str) -> str:
    """A string of an event as it stood in the text."""
    return text if text.isascii() else _STANDING_IN.sub(lambda found: found[1] or _MARKS[found[0]], text)


def _hidden(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == "&":
        return text if _ordinary(text) else text.translate(_STAND_INS)
    if text[0] == "\\" and len(text) == 2:
        return text
    first, *more = text.split("\n")
    parts = [first.translate(_STAND_INS)]
    for line in more:
        # A formula may stand in a quote, each line of it after a mark.
        lead = cast("re.Match[str]", _LEAD.match(line)).end()
        parts.append(line[:lead] + line[lead:].translate(_STAND_INS))
    return "\n".join(parts)


def _ordinary(reference: str) -> bool:
    """Whether `&#…;` means a character that a page may hold; the parser knows no such rule."""
    digits = reference[2:-1]
    number = int(digits[1:] or "0", 16) if digits[0] in "xX" else int(digits) if digits.isdecimal() else 0
    return 0 < number < 0x110000 and visible(chr(number)) == chr(number) and not _SIGNS.match(chr(number))


# -- writing


def encoded(url: str) -> str:
    """An address as an attribute may hold it: what no address may hold becomes %XX."""
    return quote(url, safe=_IN_URLS)


_NESTING: Final = frozenset({"BlockQuote", "List", "Emphasis", "Strong", "Strikethrough"})
_OPEN: Final = {
    "Paragraph": "<p>",
    "Emphasis": "<em>",
    "Strong": "<strong>",
    "Strikethrough": "<s>",
    "BlockQuote": "<blockquote>\n",
    "Item": "<li>",
    "HtmlBlock": "<p>",
    "TableRow": "<tr>\n",
}
_CLOSE: Final = {
    "Paragraph": "</p>\n",
    "Emphasis": "</em>",
    "Strong": "</strong>",
    "Strikethrough": "</s>",
    "BlockQuote": "</blockquote>\n",
    "Item": "</li>\n",
    "HtmlBlock": "</p>\n",
    "TableRow": "</tr>\n",
    "CodeBlock": "</code></pre>\n",
}
_INLINE: Final = frozenset({"Emphasis", "Strong", "Strikethrough", "Link", "Image"})
_PARTS: Final = _INLINE | {"Item", "TableHead", "TableRow", "TableCell"}
_ALONE: Final = {"SoftBreak": "\n", "HardBreak": "<br>\n", "Rule": "<hr>\n"}


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Writer:
    """Writes one text. A subclass decides otherwise about headings, links, pictures and frames."""

    code = "<pre><code>"
    table = ("<table>", "</table>")

    def __init__(self, below: int = 3, *, mirrored: bool = False) -> None:
        """`mirrored`: each outermost block finds its own direction of writing."""
        self._below, self._mirrored = below, mirrored
        self._out: list[str] = []
        self._depth = 0
        self._links: list[str] = []
        """What ends the links that are open; empty for those that are words only."""
        self._pictures: list[tuple[int, str]] = []
        """Where the alternative texts that are being written begin, and the address."""
        self._columns: tuple[str, ...] = ()
        self._column = 0
        self._empty = 0
        self._cell = "td"
        self._starts: dict[str, Callable[[Any], str]] = {
            "Heading": lambda heading: self.heading(int(heading["level"][1])),
            "List": lambda first: "<ul>\n" if first is None else "<ol>\n" if first == 1 else f'<ol start="{first}">\n',
            "CodeBlock": lambda _: self.code,
            "Link": self._link,
            "Image": self._picture,
            "Table": self._table,
            "TableHead": self._head,
            "TableCell": self._cell_start,
        }
        self._ends: dict[str, Callable[[Any], str]] = {
            "Heading": lambda level: f"</h{self.level(int(level[1]))}>\n",
            "List": lambda numbered: "</ol>\n" if numbered else "</ul>\n",
            "Link": lambda _: self._links.pop(),
            "Image": self._picture_end,
            "Table": lambda _: f"</tbody>\n{self.table[1]}\n",
            "TableHead": self._head_end,
            "TableRow": self._row_end,
            "TableCell": self._cell_end,
        }

    # -- what a subclass may decide

    def level(self, level: int) -> int:
        """The level, 1..6, that a heading of a level, 1..6, gets."""
        return min(6, level + self._below - 1)

    def heading(self, level: int) -> str:
        """What begins a heading of the text's level."""
        return f"<h{self.level(level)}>"

    def link(self, target: str) -> str | None:
        """The address for a link; None makes it its words."""
        return encoded(target) if _SAFE_LINK.match(target) else None

    def picture(self, source: str, words: str) -> str:
        """What stands for a picture; `words` are its alternative text, escaped also for attributes."""
        # A remote picture tells its host who reads the page.
        return words

    # -- the events

    def html(self, read: Iterable[Event]) -> str:
        """To be called once."""
        out = self._out
        for event in read:
            if isinstance(event, str):
                out.append("\n" if self._pictures else _ALONE.get(event, ""))
                continue
            ((kind, value),) = event.items()
            if kind == "Text":
                out.append(_text(value))
            elif kind == "Start":
                self._start(value)
            elif kind == "End":
                self._end(value)
            elif kind == "Code":
                out.append(_text(value) if self._pictures else f"<code>{_text(value)}</code>")
            elif kind == "TaskListMarker":
                out.append("☑ " if value else "☐ ")
            else:
                out.append(_text(str(value)))
        html = "".join(out)
        return html if html.isascii() else _STANDING_IN.sub(lambda found: found[1] or _ESCAPED[found[0]], html)

    def _start(self, tag: Any) -> None:
        name, more = (tag, None) if isinstance(tag, str) else next(iter(tag.items()))
        outermost = self._depth == 0
        if name in _NESTING:
            self._depth += 1
        if self._depth > MAX_DEPTH or (self._pictures and name != "Image"):
            return
        special = self._starts.get(name)
        begin = _OPEN.get(name, "") if special is None else special(more)
        if self._mirrored and begin and (name == "CodeBlock" or (outermost and name not in _PARTS)):
            begin = begin.replace(">", ' dir="auto">', 1)
        self._out.append(begin)

    def _end(self, tag: Any) -> None:
        name, more = (tag, None) if isinstance(tag, str) else next(iter(tag.items()))
        deep = self._depth > MAX_DEPTH
        if name in _NESTING:
            self._depth -= 1
        if deep or (self._pictures and name != "Image"):
            # The words of two blocks stay apart.
            self._out.append("" if name in _INLINE else "\n")
            return
        special = self._ends.get(name)
        self._out.append(_CLOSE.get(name, "") if special is None else special(more))

    def _link(self, link: Any) -> str:
        target = shown(link["dest_url"])
        address = self.link(f"mailto:{target}" if link["link_type"] == "Email" else target)
        self._links.append("" if address is None else "</a>")
        title = f' title="{escape(shown(link["title"]))}"' if link["title"] else ""
        return "" if address is None else f'<a href="{escape(address)}"{title}>'

    def _picture(self, picture: Any) -> str:
        self._pictures.append((len(self._out), shown(picture["dest_url"])))
        return ""

    def _picture_end(self, _: Any) -> str:
        begin, source = self._pictures.pop()
        words = "".join(self._out[begin:])
        del self._out[begin:]
        return words if self._pictures else self.picture(source, words.replace('"', "&quot;"))

    # -- tables: the head, then rows

    def _table(self, columns: tuple[str, ...]) -> str:
        self._columns = columns
        return f"{self.table[0]}\n"

    def _head(self, _: Any) -> str:
        self._cell, self._column = "th", 0
        return "<thead>\n<tr>\n"

    def _head_end(self, _: Any) -> str:
        self._cell, self._column = "td", 0
        return "</tr>\n</thead>\n<tbody>\n"

    def _row_end(self, _: Any) -> str:
        self._column = 0
        if self._empty > MAX_EMPTY:
            while self._out[-1] == "</td>\n" and self._out[-2].startswith("<td"):
                del self._out[-2:]
        return "</tr>\n"

    def _cell_start(self, _: Any) -> str:
        right = self._columns[self._column : self._column + 1] == ("Right",)
        self._column += 1
        scope = ' scope="col"' if self._cell == "th" else ""
        # The content security policy forbids style attributes.
        return f'<{self._cell}{scope} class="num">' if right else f"<{self._cell}{scope}>"

    def _cell_end(self, _: Any) -> str:
        if self._out[-1].startswith("<th"):
            # The corner of a table heads nothing.
            self._out[-1] = self._out[-1].replace('th scope="col"', "td")
            self._empty += 1
            return "</td>\n"
        self._empty += self._out[-1].startswith("<td")
        return f"</{self._cell}>\n"
