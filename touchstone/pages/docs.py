"""The user's own Markdown as pages of the site: `docs/index.html`, `docs/<name>.html`; pictures beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from touchstone import docs
from touchstone.i18n import Words
from touchstone.pages.common import Link
from touchstone.site import File, Page, Site
from touchstone.slugs import hash8

INDEX = docs.HOME + "index.html"


def plan(site: Site) -> Iterator[Page | File]:
    every = site.docs.pages
    for place, page in enumerate(every):
        near = (every[place - 1] if place else None, every[place + 1] if place + 1 < len(every) else None)
        yield Page(page.path, "doc.html", partial(_context, site, page, near), inputs=_inputs(site, page, near))
    if every and all(page.path != INDEX for page in every):
        yield Page(INDEX, "docs.html", partial(_list, site))
    for path, picture in site.docs.shown_pictures:
        yield File(path, picture.data)


Near = tuple[docs.Page | None, docs.Page | None]


def _inputs(site: Site, page: docs.Page, near: Near) -> str:
    texts = sorted((lang, doc.sha) for lang, doc in page.texts.items())
    titles = [[doc.title for doc in each.texts.values()] if each else None for each in near]
    return hash8(repr((texts, titles))) + f"-{site.docs.shape}-{site.langs}-{site.base_url}"


def _context(site: Site, page: docs.Page, near: Near, words: Words) -> Mapping[str, Any]:
    doc, lang = page.text(words.lang, site.docs.langs)
    previous, following = (None if each is None else _link(site, each, words) for each in near)
    return {
        "doc": doc,
        "title": doc.title,
        "text_lang": lang,
        "headings": [heading for heading in doc.parsed.headings if heading.level <= 3],
        "render": partial(site.docs.render, page, words.lang, doc),
        "docs_home": Link(INDEX),
        "at_home": page.path == INDEX,
        "previous": previous,
        "next": following,
        "list": _left_out(site, page, doc, words) if page.path == INDEX else [],
    }


def _link(site: Site, page: docs.Page, words: Words) -> dict[str, Any]:
    doc, lang = page.text(words.lang, site.docs.langs)
    return {"title": doc.title, "lang": lang, "path": page.path}


def _titles(site: Site, words: Words) -> list[dict[str, Any]]:
    return [_link(site, page, words) for page in site.docs.pages if page.path != INDEX]


def _left_out(site: Site, page: docs.Page, doc: docs.Doc, words: Words) -> list[dict[str, Any]]:
    """The pages that the first one does not lead to itself."""
    targets = (site.docs.target(page, words.lang, doc, link) for link in doc.parsed.links)
    led = {target[0] for target in targets if target is not None}
    return [each for each in _titles(site, words) if each["path"] not in led]


def _list(site: Site, words: Words) -> Mapping[str, Any]:
    return {"list": _titles(site, words)}
