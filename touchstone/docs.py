"""A folder of Markdown files as pages: which there are, in which language, and what each says. Pure.

`guide/a.md` becomes `docs/guide/a.html`, `index.md` (else `README.md`) a folder's `index.html`. `a.de.md` beside `a.md`
is its German. Each text is parsed once, whatever the number of languages and builds; links between the files, with
their `#headings`, become links between the pages, and pictures inside the folder are copied. The rest of the Markdown
is as harmless as that of a model: no raw HTML, nothing from other hosts, no scripts.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import dirname, join, normpath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from touchstone.i18n import LANGUAGES
from touchstone.jsonsource import visible
from touchstone.judge_compare import split_frontmatter
from touchstone.slugs import hash8, hash64, is_plain, reduced

HOME: Final = "docs/"
_RESERVED: Final = {"main", "toc"}
"""Ids that the page itself uses."""

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
    def _parse(self) -> tuple[Parsed, tuple[Token, ...]]:
        return parse(self.text)

    @cached_property
    def parsed(self) -> Parsed:
        return self._parse[0] if self.known is None else self.known

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self._parse[1]

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


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: urlsplit_safe(url) is not None  # type: ignore[method-assign]
    for name, rule in (
        ("link_open", _link_open),
        ("image", _image),
        ("heading_open", _heading_open),
        ("fence", _code),
        ("code_block", _code),
        ("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>\n'),
        ("table_close", lambda *_: "</table></div>\n"),
        ("th_open", _cell),
        ("td_open", _cell),
    ):
        parser.add_render_rule(name, rule)
    return parser


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


def _link_open(renderer: Any, tokens: list[Token], place: int, options: Any, env: Any) -> str:
    href = env["link"](str(tokens[place].attrGet("href") or ""))
    if href is None:
        # A link that leads nowhere is shown as its text.
        return "<a>"
    title = tokens[place].attrGet("title")
    extra = f' title="{_escape(str(title))}"' if title else ""
    return f'<a href="{_escape(href)}"{extra}>'


def _image(renderer: Any, tokens: list[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    alt = _escape(renderer.renderInlineAsText(token.children or [], options, env))
    src = env["picture"](str(token.attrGet("src") or ""))
    return alt if src is None else f'<img src="{_escape(src)}" alt="{alt}" loading="lazy">'


def _heading_open(renderer: Any, tokens: list[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    return f'<{token.tag} id="{_escape(str(token.meta["id"]))}">'


def _code(renderer: Any, tokens: list[Token], place: int, options: Any, env: Any) -> str:
    # What scrolls sideways has to be reachable from the keyboard.
    return f'<pre tabindex="0"><code>{_escape(tokens[place].content)}</code></pre>\n'


def _cell(renderer: Any, tokens: list[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    # The content security policy forbids style attributes.
    number = ' class="num"' if token.attrGet("style") == "text-align:right" else ""
    scope = ' scope="col"' if token.tag == "th" else ""
    return f"<{token.tag}{scope}{number}>"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


_PARSER: Final = _parser()


def parse(text: str) -> tuple[Parsed, tuple[Token, ...]]:
    """A Markdown text: its title (frontmatter, else first heading), its headings and links; and what renders it."""
    fields, body = split_frontmatter(text)
    tokens = _PARSER.parse(visible(body))
    declared = (fields or {}).get("title")
    title = " ".join(declared.split()) if isinstance(declared, str) else ""
    title_anchor = None
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        said = _plain(tokens[1])
        title_anchor = anchor(said)
        title = title or said
        tokens = tokens[3:]
    headings, anchors = _number(tokens, title_anchor)
    order = (fields or {}).get("order")
    parsed = Parsed(
        title=title,
        order=float(order) if isinstance(order, (int, float)) and not isinstance(order, bool) else float("inf"),
        headings=tuple(headings),
        anchors=anchors,
        title_anchor=title_anchor,
        links=tuple(str(child.attrGet("href") or "") for child in _children(tokens, "link_open")),
        pictures=tuple(str(child.attrGet("src") or "") for child in _children(tokens, "image")),
    )
    return parsed, tuple(tokens)


def _children(tokens: list[Token], kind: str) -> Iterator[Token]:
    for token in tokens:
        for child in token.children or ():
            if child.type == kind:
                yield child


def _plain(token: Token) -> str:
    """The text of a heading, without its marks."""
    spoken = (" " if child.type in ("softbreak", "hardbreak") else child.content for child in token.children or ())
    return " ".join("".join(spoken).split())


def anchor(text: str) -> str:
    """What GitHub calls a heading, so that a link works there as here: lower case, no punctuation, dashes."""
    kept = (c for c in unicodedata.normalize("NFC", text).lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-") or "section"


def _number(tokens: list[Token], title: str | None) -> tuple[list[Heading], dict[str, str]]:
    """Gives every heading its id; a first level among them becomes a second one, as the page has its title."""
    seen: Counter[str] = Counter({title: 1} if title else {})
    headings: list[Heading] = []
    anchors: dict[str, str] = {}
    for place, token in enumerate(tokens):
        if token.type not in ("heading_open", "heading_close"):
            continue
        level = max(2, int(token.tag[1]))
        token.tag = f"h{level}"
        if token.type == "heading_close":
            continue
        name = base = anchor(_plain(tokens[place + 1]))
        while seen[name]:
            name = f"{base}-{seen[base]}"
            seen[base] += 1
        seen[name] += 1
        used = f"{name}-section" if name in _RESERVED else name
        token.meta = {**token.meta, "id": used}
        anchors[name] = used
        headings.append(Heading(level, used, _plain(tokens[place + 1])))
    return headings, anchors


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
            return link, ""
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

        env: dict[str, Any] = {"link": link, "picture": picture}
        return str(_PARSER.renderer.render(list(doc.tokens), _PARSER.options, env))


def _inside(source: str, target: str) -> str | None:
    """Where in the folder a file's link leads; None if out of it."""
    parts = urlsplit_safe(target)
    if parts is None or parts[0] or not parts[1]:
        return None
    path = normpath(join(dirname(source), parts[1]))
    return None if path.startswith("..") else path


def _safe(wanted: Mapping[str, str]) -> dict[str, str]:
    """Key to a path that is safe in every file system, and another one for each."""
    folded = Counter(unicodedata.normalize("NFKC", name).casefold() for name in wanted.values())
    result = {}
    for key, name in wanted.items():
        unique = folded[unicodedata.normalize("NFKC", name).casefold()] == 1
        plain = all(is_plain(part) for part in name.split("/"))
        result[key] = name if plain and unique else f"{reduced(name)}-{hash8(key)}"
    return result
