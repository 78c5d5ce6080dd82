"""The pack: prompts, system-prompt variants, scored dimensions with weights, knock-out floors, thresholds. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from touchstone.contracts.base import Id, Score, Written, from_yaml
from touchstone.errors import Issue, brief
from touchstone.yamlsource import Document

Text = Annotated[str, Field(max_length=1_000_000)]


class Dimension(Written):
    """One scored aspect of an answer."""

    id: Id
    name: Text
    weight: float = Field(gt=0, le=1e6)
    ko_floor: Score | None = None
    """A report score below this floor is a knock-out."""
    description: Text = ""
    levels: dict[Score, Text] = {}
    """What a score means, at least for some of 1..5."""


class Thresholds(Written):
    """Quality % from which the recommendation is Ja (recommend) or Mit Einschränkung (limited)."""

    recommend: float = Field(ge=0, le=100)
    limited: float = Field(ge=0, le=100)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.limited > self.recommend:
            raise ValueError(f"limited ({self.limited:g}) must not be above recommend ({self.recommend:g})")
        return self


class Variant(Written):
    """One system prompt; empty means none is sent."""

    id: Id
    system: Text


class Prompt(Written):
    """One question, with what a good answer holds and what it must not hold."""

    id: Id
    category: Annotated[str, Field(max_length=200)] | None = None
    title: Annotated[str, Field(max_length=1000)] | None = None
    text: Annotated[str, Field(min_length=1, max_length=1_000_000)]
    reference: Text | None = None
    red_flags: Annotated[tuple[Text, ...], Field(strict=False)] = ()


class Pack(Written):
    """What is asked, how it is scored, and from where on it is good enough."""

    id: Id
    title: Text
    version: Text
    language: Literal["de", "en"]
    dimensions: tuple[Dimension, ...] = Field(min_length=1, strict=False)
    thresholds: Thresholds
    glossary: dict[str, Text] = {}
    variants: tuple[Variant, ...] = Field(min_length=1, strict=False)
    prompts: tuple[Prompt, ...] = Field(min_length=1, strict=False)

    @cached_property
    def _by_id(self) -> dict[str, Prompt]:
        return {prompt.id: prompt for prompt in self.prompts}

    def prompt(self, prompt_id: str) -> Prompt | None:
        """The prompt of that id, None if the pack does not know it."""
        return self._by_id.get(prompt_id)


def _ids_twice(document: Document, source: str) -> Iterator[Issue]:
    """Ids given twice, in the document as it stands: other faults beside them must not hide them."""
    for kind in ("dimensions", "variants", "prompts"):
        items = document.value.get(kind) if isinstance(document.value, dict) else None
        seen: set[str] = set()
        for index, item in enumerate(items if isinstance(items, list) else ()):
            name = item.get("id") if isinstance(item, dict) else None
            if isinstance(name, str) and name in seen:
                line = document.line_of((kind, index, "id"))
                yield Issue(source, line, f"{kind}[{index}].id: {brief(name)!r} is given twice; rename one")
            elif isinstance(name, str):
                seen.add(name)


def parse_pack(text: str | bytes, source: str) -> Pack:
    """A pack from YAML text. Raises InputError: every issue with file, line and the way to mend it."""
    return from_yaml(Pack, text, source, lambda document: _ids_twice(document, source))


def pack_sha(data: bytes) -> str:
    """sha256 over the pack file's bytes, hex."""
    return hashlib.sha256(data).hexdigest()
