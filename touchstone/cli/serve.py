"""`touchstone serve`: the site in the browser, growing as the runs do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.cli.build import build_options
from touchstone.cli.common import CONFIG_NAME, config_option, load_settings, note, source_option

if TYPE_CHECKING:
    from touchstone.options import Options
    from touchstone.store.address import Address


@click.command()
@source_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the site.  [default: public]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--allow-host", "allow", multiple=True, metavar="NAME", help="A host name that may be used for us.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--poll", is_flag=True, help="For network shares and containers, which tell nobody of changes.")
@click.option(
    "--templates",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Your own templates, as for build; pages follow what you change in them.",
)
@click.option(
    "--docs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of your Markdown files, as for build.",
)
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@config_option
def serve(
    runs: Path | Address | None,
    out: Path | None,
    host: str,
    allow: tuple[str, ...],
    port: int,
    poll: bool,
    templates: Path | None,
    docs: Path | None,
    no_open: bool,
    config: Path | None,
) -> None:
    """Serve the site, and update open pages while runs grow."""
    from touchstone.live.serving import Serving, serving, wait_for_ever

    def options() -> Options:
        given = build_options(load_settings(config), runs, out)
        return replace(given, templates=templates, docs=docs or given.docs)

    if host not in ("127.0.0.1", "localhost", "::1"):
        note(f"warning: listening on {host}; everyone who can reach this machine can read the site")
    how = Serving(host, port, frozenset(allow), poll, config or Path(CONFIG_NAME), options)
    with serving(options(), how, note) as (server, _):
        click.echo(server.url)
        note("Ctrl-C ends it")
        if not no_open:
            click.launch(server.url)
        wait_for_ever()
