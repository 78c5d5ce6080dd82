"""A pack: what was asked, how it is weighted, what is forbidden, and the runs that used it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from touchstone.contracts.pack import Pack, Prompt
from touchstone.i18n import Words
from touchstone.pages.common import Link, run_title
from touchstone.site import Page, Site
from touchstone.view import BundleView


def plan(site: Site) -> Iterator[Page]:
    for home, bundles in site.packs.items():
        pack = bundles[0].pack
        assert pack is not None
        yield Page(home + "index.html", "pack.html", partial(_context, site, pack, bundles))


def _context(site: Site, pack: Pack, bundles: list[BundleView], words: Words) -> Mapping[str, Any]:
    categories: dict[str, list[Prompt]] = {}
    for prompt in pack.prompts:
        categories.setdefault(prompt.category or "", []).append(prompt)
    return {
        "pack": pack,
        "withheld": any(not prompt.text for prompt in pack.prompts),
        "text_lang": pack.language,
        "lead": words.n_(
            "%(n)s prompt, %(variants)s variants, %(dimensions)s dimensions.",
            "%(n)s prompts, %(variants)s variants, %(dimensions)s dimensions.",
            len(pack.prompts),
            variants=words.number(len(pack.variants)),
            dimensions=words.number(len(pack.dimensions)),
        ),
        "categories": categories,
        "sha": bundles[0].pack_sha,
        "runs": [
            {"name": bundle.name, "title": run_title(bundle, words), "link": Link(site.home(bundle) + "index.html")}
            for bundle in bundles
        ],
    }
