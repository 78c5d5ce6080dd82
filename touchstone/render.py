"""Templates to text: one environment, used by the builder, the live server and the monitor alike.

Everything that comes from a file is escaped by default; only what this module marks as safe is markup.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
    select_autoescape,
)
from markupsafe import Markup

from touchstone import __version__
from touchstone.errors import TouchstoneError
from touchstone.i18n import NAMES, Words, catalogs
from touchstone.jsonsource import visible
from touchstone.markdown import markdown
from touchstone.pages.common import MatrixField, VerdictRow
from touchstone.report_md import recommendation_words
from touchstone.site import Page, Site, relative
from touchstone.slugs import hash8
from touchstone.stencils import FieldStencils, Stencils


def own_templates() -> Path:
    """The templates that ship with touchstone: inside the package, or beside it in a checkout."""
    package = Path(__file__).parent
    shipped = package / "_data" / "site_templates"
    return shipped if shipped.is_dir() else package.parent / "site_templates"


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return visible(value)
    return "" if value is None else value


class Renderer:
    """Renders pages of a site; `overrides` (the user's own templates) win file by file."""

    def __init__(self, overrides: Path | None = None, *, noindex: bool = False) -> None:
        folders = [*([overrides] if overrides else []), own_templates()]
        self.folders = tuple(folders)
        self.environment = Environment(
            loader=ChoiceLoader([FileSystemLoader(folder) for folder in folders]),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalize,
            extensions=["jinja2.ext.do"],
        )
        self.environment.filters["markdown"] = markdown
        self.environment.filters["recommendation"] = recommendation_words
        self.environment.globals["version"] = __version__
        self.environment.globals["noindex"] = noindex
        self._stencils: dict[str, tuple[Stencils, FieldStencils]] = {}

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever a template, a catalog or touchstone itself does."""
        parts = [__version__, repr(self.environment.globals["noindex"])]
        for folder in (*self.folders, catalogs()):
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    stat = path.stat()
                    parts.append(f"{path}|{stat.st_size}|{stat.st_mtime_ns}")
        return hash8("\n".join(parts))

    def render(self, page: Page, site: Site, words: Words) -> str:
        """The page in one language, as text."""
        root = site.lang_root(words.lang)
        here = root + page.path

        def url(target: str, fragment: str = "") -> str:
            """A link to a page of the same language."""
            page, exact = site.there(target)
            return relative(here, root + page, fragment if exact else "")

        def file(target: str) -> str:
            """A link to something that exists once, at the root: assets, data, downloads."""
            return relative(here, target)

        others = [
            {"lang": lang, "name": NAMES[lang], "href": relative(here, site.lang_root(lang) + page.path)}
            for lang in ([] if page.once else site.langs)
            if lang != words.lang
        ]
        context: Mapping[str, Any] = page.context(words)
        names = {"w": words, "_": words._, "n_": words.n_, "url": url, "file": file}
        names["address"] = f"{site.base_url or ''}{quote(here)}"
        names["verdict_rows"] = partial(self._rows, words, url)
        names["matrix_fields"] = partial(self._fields, words, url)
        try:
            template = self.environment.get_template(page.template)
            return template.render(context, **names, page=page, site=site, languages=others)
        except Exception as error:
            fault = self._fault(page, error)
            if fault is None:
                raise
            raise fault from error

    def _rows(
        self, words: Words, url: Callable[[str], str], rows: Iterable[VerdictRow], text_lang: str | None
    ) -> Markup:
        """Verdicts as table rows, by the templates' macro `verdict_row`."""
        return self._stencils_for(words)[0].fill(rows, url, text_lang)

    def _fields(self, words: Words, url: Callable[[str], str], fields: Iterable[MatrixField | None]) -> Markup:
        """A row of the matrix, by the templates' macro `matrix_field`."""
        return self._stencils_for(words)[1].fill(fields, url)

    def _stencils_for(self, words: Words) -> tuple[Stencils, FieldStencils]:
        known = self._stencils.get(words.lang)
        if known is None:
            names = {"w": words, "_": words._, "n_": words.n_}
            macros: Any = self.environment.get_template("macros.html").make_module(names)
            known = Stencils(macros.verdict_row), FieldStencils(macros.matrix_field, words.number)
            self._stencils[words.lang] = known
        return known

    def _fault(self, page: Page, error: Exception) -> TouchstoneError | None:
        """What is wrong with a template, in one line: file and line; None if it is not the template's fault."""
        where = page.template
        frames = traceback.extract_tb(error.__traceback__)
        placed = [each for each in frames if Path(each.filename).is_relative_to(self.folders[0])] or [
            each for each in frames if Path(each.filename).is_relative_to(self.folders[-1])
        ]
        if isinstance(error, TemplateSyntaxError):
            where = f"{error.filename or error.name or where}:{error.lineno}"
        elif placed:
            where = f"{placed[-1].filename}:{placed[-1].lineno}"
            ours = Path(frames[-1].filename).is_relative_to(Path(__file__).parent) and frames[-1] not in placed
            if ours and not isinstance(error, TemplateError):
                return None
        elif not isinstance(error, TemplateError):
            return None
        what = error.message if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
        return TouchstoneError(f"{where}: this template cannot be used: {what or type(error).__name__}")

    def assets(self) -> dict[str, bytes]:
        """Path below the output to content, for every file in the templates' `assets/`; overrides win."""
        found: dict[str, bytes] = {}
        for folder in reversed(self.folders):
            base = folder / "assets"
            for path in sorted(base.rglob("*")) if base.is_dir() else ():
                if path.is_file():
                    found[f"assets/{path.relative_to(base).as_posix()}"] = path.read_bytes()
        return found
