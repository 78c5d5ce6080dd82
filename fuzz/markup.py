"""Texts of models as HTML: only tags, attributes and links that we chose."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from touchstone.markdown import markdown

_BLOCKS: Final = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "blockquote", "hr"}
_INLINE: Final = {"em", "strong", "s", "code", "br", "a"}
_TABLES: Final = {"table", "thead", "tbody", "tr", "th", "td"}
TAGS: Final = frozenset(_BLOCKS | _INLINE | _TABLES)
_BLOCK: Final = {"p", "h3", "h4", "h5", "h6", "ul", "ol", "pre", "blockquote", "table"}
ATTRIBUTES: Final = {
    **{name: {"dir"} for name in _BLOCK},
    "a": {"href", "title"},
    "ol": {"start", "dir"},
    "th": {"class", "scope"},
    "td": {"class"},
}
LINK: Final = re.compile(r"(?i)https?://[^/]|mailto:.")
FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202d\u202e]")


class Reader(HTMLParser):
    """Fails at whatever we did not choose."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES.get(tag, ()), (tag, name)
            if name == "href":
                assert LINK.match(value or ""), value
        if tag not in ("hr", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("hr", "br") and not attrs, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError("a declaration")

    def handle_pi(self, data: str) -> None:
        raise AssertionError("a processing instruction")


def check(data: bytes) -> None:
    html = str(markdown(data.decode("utf-8", "replace")))
    assert not FORBIDDEN.search(html)
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, reader.open
    html.encode("utf-8")
