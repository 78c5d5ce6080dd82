"""judge_meta_response.yaml: what the strong reference says about the cells and about the local judge. Pure.

The form starts out full of nulls, and null means "not filled": such a pair is left out and counted as missing. It comes
back by way of chat tools and hands, so their ways of writing a value are taken as long as they can mean one thing
only (`4,0`, `"4"`, `4/5`, `ja`, `n/a`); everything else is refused with its path, never guessed.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Collection
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from touchstone.contracts.base import Name, Recommendation, Score, Written, from_yaml
from touchstone.contracts.lines import Cell
from touchstone.errors import InputError, Issue, brief
from touchstone.pasted import yaml_blocks

MAX_BYTES: Final = 2 * 1024 * 1024
"""Of a form: a thousand cells with all that there is to say of each are half of it."""
_OVERALL: Final[dict[str, Recommendation]] = {
    "ja": "Ja",
    "yes": "Ja",
    "nein": "Nein",
    "no": "Nein",
    "mit einschränkung": "Mit Einschränkung",
    "mit einschränkungen": "Mit Einschränkung",
    "mit einschraenkung": "Mit Einschränkung",
    "with reservations": "Mit Einschränkung",
    "with reservation": "Mit Einschränkung",
    "yes, with reservations": "Mit Einschränkung",
    "with limitations": "Mit Einschränkung",
    "with limitation": "Mit Einschränkung",
    "with restrictions": "Mit Einschränkung",
    "limited": "Mit Einschränkung",
}
_NOTHING: Final = {"", "-", "–", "—", "n/a", "na", "n. a.", "n.a.", "k. a.", "k.a.", "null", "none", "~", "entfällt"}
_TRUTH: Final = {"ja": True, "yes": True, "true": True, "wahr": True} | dict.fromkeys(
    ("nein", "no", "false", "falsch"), False
)
_QUOTES: Final = "\"'“”„‟‘’‚«»\u00a0"
_SCORE: Final = re.compile(r"([1-5])(?:[.,]0+)?(?:\s*/\s*5)?")


def _word(value: str) -> str:
    """As it was meant: without the quotation marks that a chat tool made pretty."""
    return unicodedata.normalize("NFC", " ".join(value.split()).strip(_QUOTES + " ").casefold())


def _overall(value: Any) -> Any:
    """The German wire words, their English forms, and the booleans that YAML 1.1 makes of yes and no."""
    if isinstance(value, bool):
        return "Ja" if value else "Nein"
    word = "" if value is None else _word(value).rstrip(".") if isinstance(value, str) else None
    if word in _NOTHING:
        return None
    if word not in _OVERALL:
        raise ValueError("must be one of Yes, With reservations, No (in German: Ja, Mit Einschränkung, Nein)")
    return _OVERALL[word]


def _score(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        word = _word(value)
        if word in _NOTHING:
            return None
        found = _SCORE.fullmatch(word)
        if found is None:
            raise ValueError(f"must be a whole number from 1 to 5 (got {brief(value, 40)!r})")
        return int(found[1])
    return value


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        word = _word(value)
        return None if word in _NOTHING else _TRUTH.get(word, value)
    return value


def _mapping(value: Any) -> Any:
    return {} if value is None else value


def _advice(value: Any) -> Any:
    """A list of texts; of `- When in doubt: ask`, which YAML reads as a mapping, the text that it was."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        return items
    return [
        ": ".join(next(iter(item.items())))
        if isinstance(item, dict) and len(item) == 1 and all(isinstance(part, str) for part in next(iter(item.items())))
        else item
        for item in items
    ]


Note = Annotated[str, Field(max_length=10_000)]
Truth = Annotated[bool | None, BeforeValidator(_truth)]
GivenScore = Annotated[Score | None, BeforeValidator(_score)]


class FreshScores(Written):
    """Part A: the reference's own scores of a cell, made before it saw the local ones."""

    dimensions: Annotated[dict[str, GivenScore], BeforeValidator(_mapping)] = {}
    ko_fired: Truth = None
    overall: Annotated[Recommendation | None, BeforeValidator(_overall)] = None

    @property
    def filled(self) -> bool:
        scores = any(score is not None for score in self.dimensions.values())
        return scores or self.ko_fired is not None or self.overall is not None


class DimensionCritique(Written):
    """Part B: four fixed checks of the local judge's rationale for one dimension."""

    cites_evidence: Truth = None
    names_improvement: Truth = None
    justifies_level: Truth = None
    catches_safety: Truth = None
    note: Note | None = None

    @property
    def filled(self) -> bool:
        return any(value is not None for value in (*self.checks.values(), self.note or None))

    @property
    def checks(self) -> dict[RubricCheck, bool | None]:
        """The four checks by name."""
        return {
            "cites_evidence": self.cites_evidence,
            "names_improvement": self.names_improvement,
            "justifies_level": self.justifies_level,
            "catches_safety": self.catches_safety,
        }


class CellCritique(Written):
    """Part B for one cell."""

    dimensions: Annotated[dict[str, DimensionCritique | None], BeforeValidator(_mapping)] = {}
    summary: Note | None = None

    @property
    def filled(self) -> bool:
        return bool(self.summary) or any(each is not None and each.filled for each in self.dimensions.values())


class MetaCell(Written):
    """Everything the reference says about one cell."""

    model: Name
    variant: Name
    fresh_scores: FreshScores | None = None
    critique: CellCritique | None = None

    def cell(self, cells: Collection[Cell]) -> Cell:
        """Which of `cells` it is about: by its names as they stand, else without quotation marks and spaces around."""
        named = Cell(self.model, self.variant)
        bare = Cell(*(name.strip(_QUOTES + " ") for name in named))
        return bare if named not in cells and bare in cells else named

    @property
    def filled(self) -> bool:
        return any(part is not None and part.filled for part in (self.fresh_scores, self.critique))


class MetaResponse(Written):
    """The whole form."""

    reference: Annotated[str | None, Field(max_length=500)] = None
    """Model or person, and date."""
    cells: Annotated[tuple[MetaCell, ...], Field(strict=False)] = ()
    recommendations: Annotated[tuple[Note | None, ...], Field(strict=False), BeforeValidator(_advice)] | None = None

    @property
    def filled(self) -> bool:
        """Whether anybody wrote anything into it, a cell's value or a recommendation."""
        return any(cell.filled for cell in self.cells) or any(self.recommendations or ())


RubricCheck = Literal["cites_evidence", "names_improvement", "justifies_level", "catches_safety"]

_KEYS: Final = tuple(MetaResponse.model_fields)
_INNER: Final = tuple(MetaCell.model_fields)


def parse_meta_response(text: str | bytes, source: str = "judge_meta_response.yaml") -> MetaResponse:
    """The form from YAML text, also with a fence or prose around it; several blocks of YAML are taken together.

    Raises InputError with the path of each wrong value.
    """
    parts: list[MetaResponse] = []
    issues: list[Issue] = []
    if len(text) > MAX_BYTES:
        raise InputError([Issue(source, None, f"larger than {MAX_BYTES // 1024**2} MB, so it is no filled form")])
    if isinstance(text, bytes):
        text = _decode(text, source)
    for block in yaml_blocks(text, _KEYS, _INNER):
        try:
            parts.append(from_yaml(MetaResponse, block, source))
        except InputError as error:
            issues += error.issues
    if not issues and not any("cells" in part.model_fields_set for part in parts):
        issues.append(
            Issue(source, None, "cells is missing; the form begins with `cells:`, one entry a model and variant")
        )
    if issues:
        raise InputError(issues)
    return together(parts)


def _decode(data: bytes, source: str) -> str:
    try:
        # PowerShell writes UTF-16 with `>`.
        return data.decode("utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError([Issue(source, line, "not UTF-8; save the file as UTF-8")]) from None


def together(parts: list[MetaResponse]) -> MetaResponse:
    """Several responses as one: all cells, all recommendations, the first reference that is named."""
    advice = [text for part in parts for text in part.recommendations or () if text]
    return MetaResponse(
        reference=next((part.reference for part in parts if part.reference), None),
        cells=tuple(cell for part in parts for cell in part.cells),
        recommendations=tuple(dict.fromkeys(advice)) or None,
    )
