"""`touchstone build`: the runs as a static site."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.cli.common import Settings, config_option, fetched, load_settings, note, source_option, tell

if TYPE_CHECKING:
    from touchstone.build import Built
    from touchstone.options import Options
    from touchstone.store.address import Address


@click.command()
@source_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the site.  [default: public]")
@click.option("--base-url", help="Where the site will be published; adds feed.xml and sitemap.xml.")
@click.option("--lang", help="Languages, the first one at the site's root: en, de or en,de.  [default: en]")
@click.option(
    "--templates",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Your own templates; each file replaces ours of the same name.",
)
@click.option(
    "--docs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of your Markdown files; they become pages of the site.",
)
@click.option(
    "--target",
    type=click.Choice(["html", "obsidian"]),
    default="html",
    show_default=True,
    help="obsidian: notes for a vault; --out names the folder in it.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Have the pages made by the workers of this Dask scheduler.")
@click.option("--public", is_flag=True, help="Leave out answers, prompts and what the machine was; say what goes out.")
@click.option("--force", is_flag=True, help="Build into a folder that holds other files too; those stay.")
@config_option
def build(
    runs: Path | Address | None,
    out: Path | None,
    base_url: str | None,
    lang: str | None,
    templates: Path | None,
    docs: Path | None,
    target: str,
    scheduler: str | None,
    public: bool,
    force: bool,
    config: Path | None,
) -> None:
    """Build the site from all runs."""
    from dataclasses import replace

    settings = load_settings(config)
    options = build_options(settings, runs, out)
    options = replace(options, base_url=_base_url(base_url), templates=templates, force=force, scheduler=scheduler)
    if docs is not None:
        options = replace(options, docs=docs)
    if lang is not None:
        options = replace(options, langs=_languages(lang))
    if public:
        from touchstone.publishing import CAREFUL

        options = replace(options, publish=options.publish.and_only(CAREFUL))
    if options.remote is not None:
        fetched(options.remote, options.state_home)
    if target == "obsidian":
        if scheduler is not None:
            raise click.UsageError("--scheduler is for sites; notes are made here")
        _build_notes(options, named=out is not None)
    else:
        from touchstone.build import build as build_site

        began = time.monotonic()
        report(build_site(options), options.out, began=began)
    if public or not options.publish.everything:
        _what_goes_out(options, site=target == "html")


def _what_goes_out(options: Options, *, site: bool) -> None:
    """The list, and what of a site somebody may not have meant to publish; a vault holds people's own notes too."""
    from touchstone.giveaways import warnings

    for line in warnings(options.out) if site else ():
        note(line)
    out, kept = options.publish.sorted
    always = ["scores", "red flags", "names of models, judges and prompts", "latencies", "judge quality"]
    if options.publish.rationales and site:
        always += ["scorecard.md", "judge_quality.md"]
    tell(f"goes out: {', '.join([*always, *out])}")
    tell(f"stays at home: {', '.join(kept) or 'nothing'}")
    if "rationales" in out and "answers" in kept:
        note("rationales quote the answers; publish.rationales: false keeps them at home too")


def _build_notes(options: Options, named: bool) -> None:
    if not named:
        raise click.UsageError("--target obsidian needs --out: the folder in your vault where the notes are to live")
    from touchstone.vault.notes import INDEX
    from touchstone.vault_build import build as build_notes

    report(build_notes(options), options.out, f"{INDEX}.md")


def build_options(settings: Settings, runs: Path | Address | None = None, out: Path | None = None) -> Options:
    """Options from the config, with what was given on the command line on top. Raises InputError."""
    from touchstone.options import Options
    from touchstone.publishing import Publish

    chosen = settings.config.publish.model_dump()
    noindex = chosen.pop("noindex")
    source = runs or settings.source
    remote = None
    if not isinstance(source, Path):
        from touchstone.store.remote import Mirror

        remote, source = source, Mirror(source, settings.home / ".touchstone").folder
    return Options(
        runs=source,
        out=out or settings.out,
        remote=remote,
        langs=tuple(settings.config.lang),
        timezone=settings.config.timezone,
        publish=Publish(**chosen),
        max_bytes=int(settings.config.max_site_mb * 1e6),
        noindex=noindex,
        docs=settings.path(settings.config.docs) if settings.config.docs is not None else None,
        state_home=settings.home,
    )


def report(built: Built, out: Path, start: str = "index.html", began: float | None = None) -> None:
    """Notes to stderr, one line of result to stdout; `began`: when it began, by the monotonic clock."""
    for line in built.notes:
        note(line)
    changed = f"{len(built.written)} written, {built.unchanged} unchanged"
    removed = f", {len(built.removed)} removed" if built.removed else ""
    runs = "1 run" if built.runs == 1 else f"{built.runs} runs"
    size = f"{built.bytes / 1e6:.1f} MB"
    if built.heaviest is not None and built.runs > 1:
        size += f" (most of it {built.heaviest[0]}: {built.heaviest[1] / 1e6:.1f} MB)"
    took = f" in {time.monotonic() - began:.1f} s" if began is not None else ""
    tell(f"{out / start}: {runs}, {changed}{removed}, {size}{took}")


def _base_url(text: str | None) -> str | None:
    if text is None:
        return None
    from urllib.parse import urlsplit

    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise click.BadParameter("must look like https://example.org/runs/", param_hint="--base-url")
    return text.rstrip("/") + "/"


def _languages(text: str) -> tuple[str, ...]:
    from touchstone.i18n import LANGUAGES

    langs = tuple(part.strip() for part in text.split(",") if part.strip())
    if not langs or len(set(langs)) != len(langs) or any(lang not in LANGUAGES for lang in langs):
        raise click.BadParameter(f"choose from {', '.join(LANGUAGES)}, each once", param_hint="--lang")
    return langs
