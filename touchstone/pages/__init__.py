"""One module a page kind: which pages there are, and what each of them shows. Pure.

Each module has `plan(site)`, which yields its pages; a new kind is a new module, its template, and its name here.
"""

from __future__ import annotations

from collections.abc import Iterator

from touchstone.pages import (
    answers,
    compare,
    compare_judges,
    data,
    eval,
    extras,
    flagged,
    index,
    judge,
    packs,
    quality,
    result,
    verdicts,
)
from touchstone.site import File, Page, Site

# Pages that lead to others come after them: whoever follows a link meanwhile finds the page there.
KINDS = (
    answers,
    verdicts,
    flagged,
    judge,
    eval,
    quality,
    result,
    packs,
    data,
    compare,
    compare_judges,
    index,
    extras,
)


def plan(site: Site) -> Iterator[Page | File]:
    """Every page and file of the site, each path once."""
    for kind in KINDS:
        yield from kind.plan(site)
