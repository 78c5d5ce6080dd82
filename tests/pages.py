"""Looking at a built site as a browser would: parsed pages, links, ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

import html5lib


class Html:
    """One parsed page."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_text(encoding="utf-8")
        parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), namespaceHTMLElements=False, strict=True)
        self.root: Element = parser.parse(self.source)

    def all(self, name: str) -> list[Element]:
        return list(self.root.iter(name))

    @property
    def names(self) -> set[str]:
        """Names of all elements on the page."""
        return {element.tag for element in self.root.iter() if isinstance(element.tag, str)}

    @property
    def foreign(self) -> list[str]:
        """Elements that no page of ours has, and scripts other than ours, as text."""
        never = {"img", "iframe", "object", "embed", "base"}
        ours = ("assets/tables.js", "assets/search.js")
        scripts = [
            element
            for element in self.all("script")
            if not element.attrib.get("src", "").endswith(ours) or (element.text or "").strip()
        ]
        odd = [element for element in self.root.iter() if element.tag in never]
        forms = self.all("form")
        return [f"{element.tag} {element.attrib}" for element in [*scripts, *forms, *odd]]

    @property
    def ids(self) -> list[str]:
        return [element.attrib["id"] for element in self.root.iter() if "id" in element.attrib]

    @property
    def text(self) -> str:
        """All text of the body, white space folded."""
        body = self.root.find("body")
        assert body is not None
        return " ".join("".join(body.itertext()).split())

    def links(self) -> Iterator[str]:
        """Every address that the page names."""
        for element in self.root.iter():
            for name in ("href", "src"):
                if name in element.attrib:
                    yield element.attrib[name]


def html_pages(site: Path) -> dict[str, Html]:
    """Path below the site to the parsed page; raises on markup that is not valid."""
    return {path.relative_to(site).as_posix(): Html(path) for path in sorted(site.rglob("*.html"))}


def dead_links(site: Path, pages: dict[str, Html]) -> list[str]:
    """Links that lead nowhere, or to an id that the page does not have."""
    dead = []
    ids = {name: set(page.ids) for name, page in pages.items()}
    for name, page in pages.items():
        for link in page.links():
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
            if not target.is_file() or not target.is_relative_to(site.resolve()):
                dead.append(f"{name}: {link}")
                continue
            known = ids.get(target.relative_to(site.resolve()).as_posix(), set())
            if parts.fragment and unquote(parts.fragment) not in known:
                dead.append(f"{name}: {link} (no such id)")
    return dead
