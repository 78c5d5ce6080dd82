"""judge_quality.md as a page: how far the judge agrees with a strong reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from touchstone.i18n import Words
from touchstone.judge_compare import quality_row, split_frontmatter
from touchstone.pages.common import Link, frame, is_stale
from touchstone.site import Page, Site
from touchstone.view import BundleView


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        if bundle.quality_md is not None:
            path = f"{site.home(bundle)}judge-quality/index.html"
            yield Page(path, "quality.html", partial(_context, site, bundle, bundle.quality_md))


def _context(site: Site, bundle: BundleView, text: str, words: Words) -> Mapping[str, Any]:
    fields, body = split_frontmatter(text)
    row = quality_row(bundle)
    return {
        **frame(site, bundle, words, "quality"),
        "row": row,
        "lead": _lead(row, words),
        "body": text if fields is None else body,
        "stale": is_stale(bundle, text),
        "compare": Link("compare-judges/index.html"),
        "download": site.home(bundle) + "judge_quality.md",
    }


def _lead(row: Any, words: Words) -> str:
    if row is None:
        return words._("This judge_quality.md cannot be read as one; it is shown as it stands.")
    if row.mean_abs_delta is None:
        return words._("The judge was compared with a reference, but the file does not say how far they differ.")
    return words._(
        "On average the judge is %(delta)s points away from the reference.", delta=words.number(row.mean_abs_delta, 2)
    )
