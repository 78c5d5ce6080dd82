"""judge_meta_response.yaml as it starts out: every cell and dimension, everything null. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from touchstone.contracts.lines import Cell
from touchstone.contracts.pack import Pack
from touchstone.i18n import Words
from touchstone.meta_evaluation import CHECKS


def quoted(text: str) -> str:
    """Text as a YAML scalar in quotation marks, which no reader takes for a number or a truth value."""
    # What cannot be seen is written as an escape: chat tools, and we, take such characters out.
    dumped: str = yaml.safe_dump(text, default_style='"', allow_unicode=text.isprintable(), width=1_000_000)
    return dumped.rstrip("\n")


def key_text(name: str) -> str:
    """An id as a mapping key, in quotation marks only where YAML would else read something other than text."""
    return name if yaml.safe_load(name) == name else quoted(name)


def empty_form(pack: Pack, cells: Sequence[Cell], words: Words) -> str:
    """The form for these cells, with a comment wherever it is not plain what goes there."""
    return "\n".join(_lines(pack, cells, words)) + "\n"


def _lines(pack: Pack, cells: Sequence[Cell], words: Words) -> Iterator[str]:
    yield "# " + words._("Fill in the values and change nothing else. null means: not assessed.")
    yield "reference: null  # " + words._('your model or name, and the date, in quotation marks: "Model X, 2026-06-20"')
    yield "cells:"
    for number, cell in enumerate(cells):
        first = number == 0
        yield f"  - model: {quoted(cell.model)}"
        yield f"    variant: {quoted(cell.variant)}"
        yield "    fresh_scores:" + _hint(first, words._("part A, before part B is read: your own scores, 1 to 5"))
        yield "      dimensions:"
        yield from (f"        {key_text(dimension.id)}: null" for dimension in pack.dimensions)
        yield "      ko_fired: null" + _hint(first, words._("true or false"))
        yield "      overall: null" + _hint(first, words._("Yes, With reservations or No"))
        yield "    critique:" + _hint(first, words._("part B: the local judge's reasons; each check true or false"))
        yield "      dimensions:"
        for dimension in pack.dimensions:
            yield f"        {key_text(dimension.id)}:"
            yield from (f"          {check}: null" for check in CHECKS)
            yield "          note: null"
        yield "      summary: null"
    yield "recommendations: []  # " + words._("sentences for the local judge's prompt, each in quotation marks")


def _hint(first: bool, text: str) -> str:
    return f"  # {text}" if first else ""
