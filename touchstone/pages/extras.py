"""What a published site needs besides its pages: 404.html, .nojekyll, and with a base URL a feed and a sitemap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from html import escape
from itertools import islice
from typing import Final
from urllib.parse import quote

from touchstone.i18n import Words
from touchstone.jsonsource import visible
from touchstone.pages.common import run_title
from touchstone.pages.data import iso
from touchstone.pages.result import lead
from touchstone.site import File, Page, Site
from touchstone.view import BundleView

FEED_ENTRIES: Final = 50
SITEMAP_URLS: Final = 50_000
"""The most that one sitemap may list (sitemaps.org)."""
NEVER: Final = "1970-01-01T00:00:00Z"
"""Atom wants a time even where the data has none; the clock's would change with every build."""


def plan(site: Site) -> Iterator[Page | File]:
    yield Page("404.html", "404.html", lambda words: {"home": site.base_url}, once=True)
    yield File(".nojekyll", lambda: b"")
    if site.base_url is not None:
        yield File("feed.xml", partial(_feed, site, site.base_url))
        yield File("sitemap.xml", partial(_sitemap, site, site.base_url))


def _moment(bundle: BundleView) -> str:
    """When a run last changed, from its data; the epoch where it does not say."""
    stamps = [bundle.judge.last_ts, bundle.eval.last_ts]
    created = bundle.manifest.created if bundle.manifest is not None else None
    try:
        known = [stamp for stamp in stamps if stamp is not None] + ([created.timestamp()] if created else [])
        return iso(datetime.fromtimestamp(max(known), UTC)) or NEVER if known else NEVER
    except (ValueError, OverflowError, OSError):
        return NEVER


def _address(base: str, path: str) -> str:
    """An absolute, percent-encoded address, as text and as the value of an attribute."""
    return _text(base + quote(path))


def _text(text: str) -> str:
    return escape(visible(text))


def _feed(site: Site, base: str) -> bytes:
    words = Words(site.langs[0])
    newest = site.bundles[:FEED_ENTRIES]
    entries = [
        f"<entry><id>{_address(base, site.home(bundle))}</id><title>{_text(run_title(bundle, words))}</title>"
        f'<link href="{_address(base, site.home(bundle) + "index.html")}"/><updated>{_moment(bundle)}</updated>'
        f"<summary>{_text(lead(bundle, words))}</summary></entry>"
        for bundle in newest
    ]
    updated = max((_moment(bundle) for bundle in newest), default=NEVER)
    head = (
        f'<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{words.lang}">'
        f"<id>{_text(base)}</id><title>touchstone</title><author><name>touchstone</name></author>"
        f'<link rel="self" href="{_address(base, "feed.xml")}"/><updated>{updated}</updated>'
    )
    return "\n".join([head, *entries, "</feed>\n"]).encode("utf-8", "replace")


def _sitemap(site: Site, base: str) -> bytes:
    urls = (_address(base, path) for path in site.addresses)
    body = "\n".join(f"<url><loc>{url}</loc></url>" for url in islice(urls, SITEMAP_URLS))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{body}\n</urlset>\n"
    ).encode()
