"""judge_quality.md as a page: how far the judge agrees with a strong reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.i18n import Words
from touchstone.judge_compare import quality_row, split_frontmatter
from touchstone.judge_words import figures, lead
from touchstone.pages.common import Link, frame, is_stale, shell_word
from touchstone.pages.consistency import consistency_words
from touchstone.site import Page, Site
from touchstone.view import BundleView

SHOWN: Final = 100_000
"""Characters of the file that the page shows; the download has them all."""


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        if bundle.quality_md is not None:
            path = f"{site.home(bundle)}judge-quality/index.html"
            context = partial(_context, site, bundle, bundle.quality_md)
            yield Page(path, "quality.html", context, inputs=site.inputs(bundle))


def _context(site: Site, bundle: BundleView, text: str, words: Words) -> Mapping[str, Any]:
    row = quality_row(bundle)
    body = text if row is None else split_frontmatter(text)[1]
    return {
        **frame(site, bundle, words, "quality"),
        "row": row,
        "lead": lead(row, words),
        "facts": [] if row is None else figures(row, words),
        "repeated": "\n## Headline\n" in body,
        "body": body[:SHOWN],
        "cut": len(body) > SHOWN,
        "renew": shell_word("runs/" + bundle.name) if is_stale(bundle, text) else None,
        "consistency": consistency_words(bundle.consistency, words),
        "compare": Link("compare-judges/index.html"),
        "download": site.home(bundle) + "judge_quality.md",
    }
