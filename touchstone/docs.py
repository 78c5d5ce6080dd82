"""A folder of Markdown files as pages: which there are, in which language, and what each says. Pure.

`guide/a.md` becomes `docs/guide/a.html`, `index.md` (else `README.md`) a folder's `index.html`. `a.de.md` beside `a.md`
is its German. Each text is parsed once, whatever the number of languages and builds; links between the files, with
their `#headings`, become links between the pages, and pictures inside the folder are copied. The rest of the Markdown
is as harmless as that of a model: no raw HTML, nothing from other hosts, no scripts.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from posixpath import dirname, join, normpath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from touchstone.i18n import LANGUAGES
from touchstone.judge_compare import split_frontmatter
from touchstone.markdown import Event, Writer, encoded, mirrored, read, shown
from touchstone.slugs import apart, hash8, hash64, is_plain, reduced

HOME: Final = "docs/"
_RESERVED: Final = {"main", "toc"}
"""Ids that the page itself uses."""

_FILES: Final = (".html", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".svg")
"""How the names of pages and pictures end."""

Address = Callable[[str, str], str]
"""Path below the site's root and fragment, to a link from the page that is made; "" as path: the page itself."""


@dataclass(frozen=True)
class Doc:
    """One Markdown file."""

    source: str
    """Below the folder, with /."""
    text: str
    known: Parsed | None = None
    """What an earlier parse of the same text found."""

    @cached_property
    def lang(self) -> str | None:
        """The language that the file's name says."""
        stem = self.source.removesuffix(".md")
        return next((lang for lang in LANGUAGES if stem.endswith(f".{lang}")), None)

    @cached_property
    def key(self) -> str:
        """The name without language and ending: what the files of one page have in common."""
        stem = self.source.removesuffix(".md")
        return stem if self.lang is None else stem.removesuffix(f".{self.lang}")

    @cached_property
    def sha(self) -> str:
        return hash64(self.text)

    @cached_property
    def _parse(self) -> tuple[Parsed, tuple[Event, ...]]:
        return parse(self.text)

    @cached_property
    def parsed(self) -> Parsed:
        return self._parse[0] if self.known is None else self.known

    def html(self, link: Callable[[str], str | None], picture: Callable[[str], str | None]) -> str:
        """The text below its title. `link` and `picture` give addresses; without one, the words stand alone."""
        parsed, events = self._parse
        return _Writer(parsed.headings, link, picture, mirrored=mirrored(self.text)).html(events)

    @property
    def title(self) -> str:
        return self.parsed.title or self.key.rpartition("/")[2]


@dataclass(frozen=True)
class Picture:
    """A picture inside the folder."""

    source: str
    data: Callable[[], bytes]


class Heading(NamedTuple):
    """A heading below the title."""

    level: int
    id: str
    text: str


@dataclass(frozen=True)
class Parsed:
    """What the pages know of a text without rendering it."""

    title: str
    """Empty where the text has none."""
    order: float
    """`order:` in the frontmatter; without it after all that have one."""
    headings: tuple[Heading, ...]
    anchors: Mapping[str, str]
    """What a link may call a heading, to its id."""
    title_anchor: str | None
    links: tuple[str, ...]
    pictures: tuple[str, ...]

    def as_json(self) -> list[Any]:
        """As JSON can say it; `from_json` reads it back."""
        order = None if self.order == float("inf") else self.order
        fields = (self.title, order, self.headings, self.anchors, self.title_anchor, self.links, self.pictures)
        return list(fields)

    @classmethod
    def from_json(cls, data: Any) -> Parsed | None:
        """None for what `as_json` did not write."""
        try:
            title, order, headings, anchors, title_anchor, links, pictures = data
            return cls(
                str(title),
                float("inf") if order is None else float(order),
                tuple(Heading(int(level), str(name), str(text)) for level, name, text in headings),
                {str(name): str(used) for name, used in anchors.items()},
                None if title_anchor is None else str(title_anchor),
                tuple(map(str, links)),
                tuple(map(str, pictures)),
            )
        except (TypeError, ValueError, AttributeError):
            return None


# -- one text


def urlsplit_safe(url: str) -> tuple[str, str, str] | None:
    """(scheme, path, fragment) of what may be linked: http(s), mailto, or a place in the folder; None for all else."""
    try:
        parts = urlsplit(url.strip())
        scheme = parts.scheme.lower()
    except ValueError:
        return None
    if scheme in ("http", "https"):
        return (scheme, parts.path, parts.fragment) if parts.netloc else None
    if scheme == "mailto":
        return (scheme, parts.path, "")
    if scheme or parts.netloc or parts.path.startswith(("/", "\\")):
        return None
    return ("", unquote(parts.path), unquote(parts.fragment))


def parse(text: str) -> tuple[Parsed, tuple[Event, ...]]:
    """A Markdown text: its title (frontmatter, else first heading), its headings and links; and what renders it."""
    fields, body = split_frontmatter(text)
    events = tuple(read(body))
    declared = (fields or {}).get("title")
    title = " ".join(declared.split()) if isinstance(declared, str) else ""
    title_anchor = None
    if (first := next(_headings(events), None)) and first[:2] == (0, 1):
        _, _, said, end = first
        title_anchor = anchor(said)
        title = title or said
        events = events[end:]
    headings, anchors = _number(events, title_anchor)
    order = (fields or {}).get("order")
    parsed = Parsed(
        title=title,
        order=float(order) if isinstance(order, (int, float)) and not isinstance(order, bool) else float("inf"),
        headings=tuple(headings),
        anchors=anchors,
        title_anchor=title_anchor,
        links=tuple(_targets(events, "Link")),
        pictures=tuple(_targets(events, "Image")),
    )
    return parsed, events


def _targets(events: Sequence[Event], kind: str) -> Iterator[str]:
    """Where links or pictures lead, as they stand in the text."""
    for event in events:
        start = event.get("Start") if isinstance(event, dict) else None
        if isinstance(start, dict) and kind in start:
            yield shown(start[kind]["dest_url"])


def _headings(events: Sequence[Event]) -> Iterator[tuple[int, int, str, int]]:
    """(place, level, text without marks, place after its end) of each heading."""
    begin = level = 0
    spoken: list[str] | None = None
    for place, event in enumerate(events):
        if isinstance(event, str):
            if spoken is not None:
                spoken.append(" ")
            continue
        ((kind, value),) = event.items()
        if kind == "Start" and isinstance(value, dict) and "Heading" in value:
            begin, level, spoken = place, int(value["Heading"]["level"][1]), []
        elif kind == "End" and isinstance(value, dict) and "Heading" in value:
            yield begin, level, " ".join(shown("".join(spoken or ())).split()), place + 1
            spoken = None
        elif spoken is not None and isinstance(value, str) and kind not in ("Start", "End"):
            spoken.append(value)


def anchor(text: str) -> str:
    """What GitHub calls a heading, so that a link works there as here: lower case, no punctuation, dashes."""
    kept = (c for c in unicodedata.normalize("NFC", text).lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-") or "section"


def _number(events: Sequence[Event], title: str | None) -> tuple[list[Heading], dict[str, str]]:
    """The headings below the title, each with an id of its own; and what a link may call them, to their ids."""
    seen: Counter[str] = Counter({title: 1} if title else {})
    headings: list[Heading] = []
    anchors: dict[str, str] = {}
    for _, level, said, _ in _headings(events):
        name = base = anchor(said)
        while seen[name]:
            name = f"{base}-{seen[base]}"
            seen[base] += 1
        seen[name] += 1
        used = f"{name}-section" if name in _RESERVED else name
        anchors[name] = used
        headings.append(Heading(_level(level), used, said))
    return headings, anchors


class _Writer(Writer):
    """A page of the docs: headings that can be linked, links between the files, pictures."""

    # What scrolls sideways has to be reachable from the keyboard.
    code = '<pre tabindex="0"><code>'
    table = ('<div class="scroll" tabindex="0"><table>', "</table></div>")

    def __init__(
        self,
        headings: Sequence[Heading],
        link: Callable[[str], str | None],
        picture: Callable[[str], str | None],
        *,
        mirrored: bool,
    ) -> None:
        super().__init__(mirrored=mirrored)
        self._ids = (heading.id for heading in headings)
        self._address, self._source = link, picture

    def level(self, level: int) -> int:
        return _level(level)

    def heading(self, level: int) -> str:
        return f'<h{_level(level)} id="{escape(next(self._ids))}">'

    def link(self, target: str) -> str | None:
        return self._address(target)

    def picture(self, source: str, words: str) -> str:
        src = self._source(source)
        return words if src is None else f'<img src="{escape(src)}" alt="{words}" loading="lazy">'


def _level(level: int) -> int:
    """A first level becomes a second one, as the page has its title."""
    return max(2, level)


# -- all of them


@dataclass(frozen=True)
class Page:
    """One page of the docs, in the languages that there are."""

    path: str
    """Below the language's root."""
    key: str
    texts: Mapping[str, Doc]
    """Language to file; "" is the file whose name says none."""

    def text(self, lang: str, langs: tuple[str, ...]) -> tuple[Doc, str | None]:
        """The file for a language, and the language that it is in, if that is another one."""
        if lang in self.texts:
            return self.texts[lang], None
        if "" in self.texts:
            free = [each for each in langs if each not in self.texts] or [langs[0]]
            return self.texts[""], None if free[0] == lang else free[0]
        other = sorted(self.texts)[0]
        return self.texts[other], other


@dataclass(frozen=True)
class Docs:
    """The folder."""

    texts: tuple[Doc, ...] = ()
    pictures: tuple[Picture, ...] = ()
    langs: tuple[str, ...] = field(default=("en",))

    @cached_property
    def pages(self) -> tuple[Page, ...]:
        """In reading order: by `order`, the folder's index first, then by name."""
        files: dict[str, dict[str, Doc]] = {}
        for doc in self.texts:
            files.setdefault(doc.key, {})[doc.lang or ""] = doc
        pages = [Page(self._paths[key], key, texts) for key, texts in files.items()]
        return tuple(sorted(pages, key=lambda page: (dirname(page.key), self._order(page), page.key.lower())))

    def _order(self, page: Page) -> tuple[bool, float]:
        return (not page.path.endswith("index.html"), self.text(page, self.langs[0]).parsed.order)

    def text(self, page: Page, lang: str) -> Doc:
        return page.text(lang, self.langs)[0]

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Key to the page's path. `index`, else `README`, is what a folder shows first."""
        keys = sorted({doc.key for doc in self.texts})
        wanted = {}
        for key in keys:
            folder, name = dirname(key), key.rpartition("/")[2]
            first = name == "index" or (name.lower() == "readme" and join(folder, "index") not in keys)
            wanted[key] = join(folder, "index") if first else key
        return {key: f"{HOME}{name}.html" for key, name in _safe(wanted).items()}

    @cached_property
    def _pictures(self) -> dict[str, str]:
        """Source of a picture that some text shows, to its path below the site's root."""
        sources = {each.source for each in self.pictures}
        shown = {
            target
            for doc in self.texts
            for src in doc.parsed.pictures
            if (target := _inside(doc.source, src)) is not None and target in sources
        }
        stems = {source: source.rpartition(".")[0] for source in sorted(shown)}
        return {source: f"{HOME}{stem}.{source.rpartition('.')[2].lower()}" for source, stem in _safe(stems).items()}

    @cached_property
    def shown_pictures(self) -> tuple[tuple[str, Picture], ...]:
        """(path below the site's root, picture) of those that some text shows."""
        by_source = {each.source: each for each in self.pictures}
        return tuple((path, by_source[source]) for source, path in self._pictures.items())

    @cached_property
    def _by_key(self) -> dict[str, Page]:
        return {page.key: page for page in self.pages}

    @cached_property
    def shape(self) -> str:
        """Stands for what a page knows of the others: where they are."""
        return hash8(repr((sorted(self._paths.items()), sorted(self._pictures.items()), self.langs)))

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Links and pictures that lead nowhere, a line each."""
        found = []
        for page in self.pages:
            for lang, doc in page.texts.items():
                for link in doc.parsed.links:
                    if self.target(page, lang or self.langs[0], doc, link) is None:
                        found.append(f"{doc.source}: the link to {link!r} leads nowhere")
                found += [
                    f"{doc.source}: the picture {src!r} is not in the folder"
                    for src in doc.parsed.pictures
                    if _inside(doc.source, src) not in self._pictures
                ]
        return tuple(found)

    def target(self, page: Page, lang: str, doc: Doc, link: str) -> tuple[str, str] | None:
        """(path below the language's root or an outer address, fragment) of a link; None if it leads nowhere."""
        parts = urlsplit_safe(link)
        if parts is None:
            return None
        scheme, path, fragment = parts
        if scheme:
            return encoded(link), ""
        if not path:
            goal, text = page, doc
        else:
            source = normpath(join(dirname(doc.source), path)).removesuffix("/")
            found = self._find(source)
            if found is None:
                return (HOME + source, "") if HOME + source in self._pictures.values() else None
            goal, text = found, self.text(found, lang)
        if not fragment or fragment == text.parsed.title_anchor:
            return goal.path, ""
        known = text.parsed.anchors.get(fragment)
        if known is None:
            # A heading is called something else in each language.
            known = next(
                (d.parsed.anchors[fragment] for d in goal.texts.values() if fragment in d.parsed.anchors), None
            )
            return None if known is None else (goal.path, "")
        return goal.path, known

    def _find(self, source: str) -> Page | None:
        if source.startswith(".."):
            return None
        if source.endswith(".md"):
            return self._by_key.get(Doc(source, "").key)
        return next(
            (
                page
                for name in ("index", "README", "readme")
                if (page := self._by_key.get(normpath(join(source, name))))
            ),
            None,
        )

    def render(self, page: Page, lang: str, doc: Doc, address: Address, file: Callable[[str], str]) -> str:
        """The page's text as HTML. `address` makes links to pages of the same language, `file` to what exists once."""

        def link(href: str) -> str | None:
            found = self.target(page, lang, doc, href)
            if found is None:
                return None
            path, fragment = found
            if path.startswith(HOME):
                return address(path, fragment) if path.endswith(".html") else file(path)
            return path

        def picture(src: str) -> str | None:
            path = self._pictures.get(_inside(doc.source, src) or "")
            return None if path is None else file(path)

        return doc.html(link, picture)


def _inside(source: str, target: str) -> str | None:
    """Where in the folder a file's link leads; None if out of it."""
    parts = urlsplit_safe(target)
    if parts is None or parts[0] or not parts[1]:
        return None
    path = normpath(join(dirname(source), parts[1]))
    return None if path.startswith("..") else path


def _safe(wanted: Mapping[str, str]) -> dict[str, str]:
    """Key to a path that is safe in every file system, and another one for each."""
    return apart(wanted, _plain, lambda key: f"{reduced(wanted[key])}-{hash8(key)}")


def _plain(name: str) -> bool:
    """Whether a path can stay as it is; a folder called like a file could be in a page's place."""
    *folders, _ = parts = name.split("/")
    return all(map(is_plain, parts)) and not any(folder.lower().endswith(_FILES) for folder in folders)
