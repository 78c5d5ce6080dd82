"""Less of a page: rows that an open page already shows are sent as their id and mark alone.

A mark is a digest of what is in an element. The page that a browser loads comes with the marks of its rows and cards,
in their order; a page that is pushed names the unchanged ones and holds the others. A browser that cannot find what is
named, as it shows, asks for the whole page. So a page of 500 rows costs as little as its news. Knows no sockets.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, TypeVar

# Neither element holds another of its kind: texts are escaped, and Markdown gives rows no ids.
_MARKED: Final = re.compile(rb'<(tr|article)((?:\s[^<>]*?)?\sid="([^"<>]*)"[^<>]*)>(.*?)</\1>', re.DOTALL)
_KEPT: Final = 64
"""Pages whose marks are remembered."""

Marks = Mapping[bytes, bytes]
"""Id of a row or card to its mark."""
T = TypeVar("T")


def _mark(element: re.Match[bytes]) -> bytes:
    return blake2b(element[0], digest_size=6).hexdigest().encode()


def marks_of(page: bytes) -> Marks:
    """The marks of all rows and cards that have an id, in the order of the page."""
    return {element[3]: _mark(element) for element in _MARKED.finditer(page)}


def trimmed(page: bytes, known: Marks) -> tuple[bytes, Marks]:
    """The page, with empty elements where it holds what `known` knows; and its marks, which the others carry."""
    marks: dict[bytes, bytes] = {}

    def shorter(element: re.Match[bytes]) -> bytes:
        name, attributes, ident, content = element.groups()
        mark = marks[ident] = _mark(element)
        if known.get(ident) == mark:
            return b'<%s id="%s" data-h="%s"></%s>' % (name, ident, mark, name)
        return b'<%s%s data-h="%s">%s</%s>' % (name, attributes, mark, content, name)

    return _MARKED.sub(shorter, page), marks


class Pushed:
    """The newest version of each page as it is pushed; made once, however many look at it. Thread-safe."""

    def __init__(self, get: Callable[[str], bytes | None]) -> None:
        self._get = get
        self._lock = threading.Lock()
        self._marks: OrderedDict[str, Marks] = OrderedDict()
        self._made: OrderedDict[str, tuple[str, str | None]] = OrderedDict()

    def loaded(self, path: str, page: bytes) -> Marks:
        """The marks of a page that a browser loads now; what is pushed next builds upon them."""
        marks = marks_of(page)
        with self._lock:
            _keep(self._marks, path, marks)
        return marks

    def since(self, path: str, build: str) -> str | None:
        """The page as of this build, without what was in the version before. None if there is no such page."""
        with self._lock:
            made = self._made.get(path)
            if made is not None and made[0] == build:
                return made[1]
            page = self._get(path)
            text = None
            if page is not None:
                less, marks = trimmed(page, self._marks.get(path, {}))
                text = less.decode("utf-8", "replace")
                _keep(self._marks, path, marks)
            _keep(self._made, path, (build, text))
            return text


def _keep(store: OrderedDict[str, T], path: str, value: T) -> None:
    store[path] = value
    store.move_to_end(path)
    while len(store) > _KEPT:
        store.popitem(last=False)
