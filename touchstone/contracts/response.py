"""judge_meta_response.yaml: what the strong reference says about the cells and about the local judge. Pure.

The form starts out full of nulls, and null means "not filled": such a pair is left out and counted as missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from touchstone.contracts.base import Name, Recommendation, Score, Written, from_yaml

_OVERALL = {
    "yes": "Ja",
    "no": "Nein",
    "with limitations": "Mit Einschränkung",
    "with reservations": "Mit Einschränkung",
    "limited": "Mit Einschränkung",
    "ja": "Ja",
    "nein": "Nein",
    "mit einschränkung": "Mit Einschränkung",
}


def _overall(value: Any) -> Any:
    """The German wire words, their English forms, and the booleans that YAML 1.1 makes of yes and no."""
    if isinstance(value, bool):
        return "Ja" if value else "Nein"
    if isinstance(value, str):
        return _OVERALL.get(value.strip().casefold(), value)
    return value


Note = Annotated[str, Field(max_length=10_000)]


class FreshScores(Written):
    """Part A: the reference's own scores of a cell, made before it saw the local ones."""

    dimensions: dict[str, Score | None] = {}
    ko_fired: bool | None = None
    overall: Annotated[Recommendation | None, BeforeValidator(_overall)] = None


class DimensionCritique(Written):
    """Part B: four fixed checks of the local judge's rationale for one dimension."""

    cites_evidence: bool | None = None
    names_improvement: bool | None = None
    justifies_level: bool | None = None
    catches_safety: bool | None = None
    note: str | None = None


class CellCritique(Written):
    """Part B for one cell."""

    dimensions: dict[str, DimensionCritique | None] = {}
    summary: str | None = None


class MetaCell(Written):
    """Everything the reference says about one cell."""

    model: Name
    variant: Name
    fresh_scores: FreshScores | None = None
    critique: CellCritique | None = None


class MetaResponse(Written):
    """The whole form."""

    reference: str | None = None
    """Model or person, and date."""
    cells: Annotated[tuple[MetaCell, ...], Field(strict=False)]
    recommendations: Annotated[tuple[Note | None, ...], Field(strict=False)] | None = None


RubricCheck = Literal["cites_evidence", "names_improvement", "justifies_level", "catches_safety"]


def parse_meta_response(text: str | bytes, source: str = "judge_meta_response.yaml") -> MetaResponse:
    """The form from YAML text. Raises InputError with the path of each wrong value (`cells[0].model`)."""
    return from_yaml(MetaResponse, text, source)
