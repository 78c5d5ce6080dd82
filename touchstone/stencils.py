"""Table rows by the hundred thousand: a template's row, made once for each shape and then filled in.

A verdict's row is a macro like any other. What it looks like depends on few things (its score, its flag, whether it
has an answer, how its reasons are shown); all else is text that goes into fixed places. So the macro is asked once for
each such shape, with a mark in each place, and every further row of that shape only has its texts escaped and put in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, TypeVar

from markupsafe import Markup, escape

from touchstone.jsonsource import visible
from touchstone.pages.common import MatrixField, VerdictRow

S = TypeVar("S")

_MARK: Final = re.compile("\ue000([0-9]+)\ue001")
# What the places are called in the macro; the numbers in the marks count these.
_PLACES: Final = (
    "id",
    "own",
    "answer",
    "prompt_id",
    "title",
    "model",
    "variant",
    "repeat",
    "error",
    "folded",
    "rationale",
)


class _Forms(Generic[S]):
    """Shape to the macro's markup for it, as a format, and the texts that go into it in order."""

    def __init__(self, learn: Callable[[S], str]) -> None:
        self._learn = learn
        self._known: dict[S, tuple[str, tuple[int, ...]]] = {}

    def fill(self, shape: S, texts: tuple[str, ...]) -> str:
        known = self._known.get(shape)
        if known is None:
            html = self._learn(shape)
            places = tuple(int(number) for number in _MARK.findall(html))
            known = self._known[shape] = (_MARK.sub("%s", html.replace("%", "%%")), places)
        form, places = known
        return form % tuple([texts[place] for place in places])


def _mark(number: int) -> str:
    return f"\ue000{number}\ue001"


Shape = tuple[int | None, bool | None, bool, bool, bool, str, str | None]


@dataclass(frozen=True, slots=True)
class Marked:
    """A row as the macro sees it: the shape for real, a mark in place of every text."""

    score: int | None
    flag: bool | None
    reason: str
    """How the reasons are shown: gone, error, both (error and rationale), folded or plain."""
    text_lang: str | None
    id: str
    own: str
    answer: str | None
    prompt_id: str
    title: str | None
    model: str
    variant: str
    repeat: str | None
    error: str
    folded: str
    rationale: str


@lru_cache(maxsize=8192)
def _short(text: str) -> str:
    """Names come again and again."""
    return str(escape(visible(text)))


def _long(text: str | None) -> str:
    return "" if text is None else str(escape(visible(text)))


class Stencils:
    """The verdict rows of one language. `macro` makes one row."""

    def __init__(self, macro: Callable[[Marked], str]) -> None:
        self._macro = macro
        self._forms = _Forms(self._learn)

    def fill(self, rows: Iterable[VerdictRow], url: Callable[[str], str], text_lang: str | None) -> Markup:
        """The rows as markup; `url` makes the link to a page."""
        return Markup("".join(self._filled(rows, url, text_lang)))

    def _filled(self, rows: Iterable[VerdictRow], url: Callable[[str], str], text_lang: str | None) -> Iterator[str]:
        links: dict[str, str] = {}

        def link(path: str) -> str:
            if path not in links:
                links[path] = str(escape(url(path)))
            return links[path]

        for row in rows:
            reason = _reason(row)
            answer = row.answer
            shape = (row.score, row.flag, answer is not None, row.title is not None, row.repeat > 0, reason, text_lang)
            texts = (
                row.id,
                f"{link(row.page)}#{row.id}" if row.page else f"#{row.id}",
                "" if answer is None else f"{link(answer)}#a-{row.id[2:]}",
                _short(row.prompt_id),
                "" if row.title is None else _short(row.title),
                _short(row.model),
                _short(row.variant),
                str(row.repeat),
                _long(row.error),
                _long(row.folded),
                "" if reason in ("gone", "error") else _long(row.rationale),
            )
            yield self._forms.fill(shape, texts)

    def _learn(self, shape: Shape) -> str:
        score, flag, answer, title, repeat, reason, text_lang = shape
        mark = {name: _mark(number) for number, name in enumerate(_PLACES)}
        return self._macro(
            Marked(
                score=score,
                flag=flag,
                reason=reason,
                text_lang=text_lang,
                id=mark["id"],
                own=mark["own"],
                answer=mark["answer"] if answer else None,
                prompt_id=mark["prompt_id"],
                title=mark["title"] if title else None,
                model=mark["model"],
                variant=mark["variant"],
                repeat=mark["repeat"] if repeat else None,
                error=mark["error"],
                folded=mark["folded"],
                rationale=mark["rationale"],
            )
        )


@dataclass(frozen=True, slots=True)
class MarkedField:
    """A field of the matrix as the macro sees it."""

    tone: int
    flag: bool
    scored: bool
    href: str
    text: str


class FieldStencils:
    """The fields of the prompt × cell matrix in one language. `macro` makes one field, of a mark or of None."""

    def __init__(self, macro: Callable[[MarkedField | None], str], number: Callable[[float | None, int], str]) -> None:
        self._empty = str(macro(None))
        self._number = number
        self._forms: _Forms[tuple[int, bool, bool]] = _Forms(
            lambda shape: macro(MarkedField(*shape, href=_mark(0), text=_mark(1)))
        )

    def fill(self, fields: Iterable[MatrixField | None], url: Callable[[str], str]) -> Markup:
        """The fields of one row as markup."""
        links: dict[str, str] = {}
        filled = []
        for field in fields:
            if field is None:
                filled.append(self._empty)
                continue
            if field.page not in links:
                links[field.page] = str(escape(url(field.page)))
            text = "" if field.score is None else str(escape(self._number(field.score, field.digits)))
            shape = (field.tone, field.flag, field.score is not None)
            filled.append(self._forms.fill(shape, (f"{links[field.page]}#{field.id}", text)))
        return Markup("".join(filled))


def _reason(row: VerdictRow) -> str:
    if row.gone:
        return "gone"
    if row.error:
        return "both" if row.rationale else "error"
    return "folded" if row.folded is not None else "plain"
