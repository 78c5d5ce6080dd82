"""Names and texts in rows of pages: whatever they hold, nothing of it is markup, and no link leads elsewhere."""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from fuzz.markup import TAGS
from fuzz.pieces import Choices
from touchstone import pages
from touchstone.bundle import open_bundle
from touchstone.i18n import Words
from touchstone.render import Renderer
from touchstone.site import Page, Site

KINDS: Final = {
    "verdicts.html",
    "flagged.html",
    "judge.html",
    "answers.html",
    "result.html",
    "eval.html",
    "index.html",
    "compare.html",
}


@lru_cache(maxsize=1)
def renderer() -> Renderer:
    return Renderer()


class Reader(HTMLParser):
    """Element and attribute names, and where links lead."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}

    def handle_comment(self, data: str) -> None:
        self.names.add("!--")


def shown(bundle: Path) -> dict[str, Reader]:
    """Every HTML page of a site with this bundle alone, read."""
    site = Site((open_bundle(bundle).refresh(),), ("en",))
    found = {}
    for page in pages.plan(site):
        if isinstance(page, Page) and page.template in KINDS:
            reader = Reader()
            reader.feed(renderer().render(page, site, Words("en", None)))
            reader.close()
            found[page.path] = reader
    return found


def bundle_of(folder: Path, texts: list[str]) -> Path:
    """A bundle with these texts in every field that takes any."""
    name, other, text, why = ((texts[place] if place < len(texts) else "") for place in range(4))
    key: dict[str, Any] = {"model": name or "m", "variant": other or "v", "prompt_id": text[:400] or "p", "repeat": 0}
    answer = {**key, "category": other, "answer": text, "reasoning": why, "status": "ok", "error": why, "ts": 1.0}
    verdict = {
        **key,
        "category": name,
        "score": 2,
        "red_flag": True,
        "unscored": False,
        "rationale": why,
        "error": text,
    }
    stray = {**verdict, "prompt_id": why[:400] or "q", "score": 0, "unscored": True}
    report = {"model": name or "m", "variant": other or "v", "dim_scores": {other: 3}, "dim_rationales": {other: text},
              "summary": why, "error": name}  # fmt: skip
    bundle = folder / "b"
    bundle.mkdir()
    logs = {
        "answers.jsonl": [answer, {**answer, "repeat": 1, "status": "error"}],
        "judgements.jsonl": [{**verdict, "judge_model": name}, stray],
        "reports.jsonl": [report],
    }
    for file, lines in logs.items():
        (bundle / file).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return bundle


@lru_cache(maxsize=1)
def plain() -> tuple[frozenset[str], frozenset[str]]:
    """Element and attribute names of pages about harmless texts, with and without marks in them."""
    names: set[str] = set()
    attributes: set[str] = set()
    for texts in (
        ["m", "v", "p", "w"],
        ["m", "v", "# h\n\n- a\n1. b\n\n`c` **d** *e* [f](https://g.example)", "w" * 400],
    ):
        with tempfile.TemporaryDirectory() as folder:
            for reader in shown(bundle_of(Path(folder), texts)).values():
                names |= reader.names
                attributes |= reader.attributes
    extra = {*TAGS, "details", "summary"} - {"h1", "h2"}
    return frozenset(names) | extra, frozenset(attributes) | {"href", "title", "start", "class"}


def check(data: bytes) -> None:
    choices = Choices(data)
    texts = [choices.text() for _ in range(4)]
    names, attributes = plain()
    with tempfile.TemporaryDirectory() as folder:
        for path, reader in shown(bundle_of(Path(folder), texts)).items():
            assert reader.names <= names, (path, reader.names - names)
            assert reader.attributes <= attributes, (path, reader.attributes - attributes)
            for link in reader.links:
                assert not link.lower().lstrip().startswith(("javascript:", "data:", "vbscript:", "file:", "//")), link
