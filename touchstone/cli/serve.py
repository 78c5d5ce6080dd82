"""`touchstone serve`: the site in the browser, growing as the runs do."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli.build import build_options
from touchstone.cli.common import config_option, load_settings, note, runs_option


@click.command()
@runs_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the site.  [default: public]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--allow-host", "allow", multiple=True, metavar="NAME", help="A host name that may be used for us.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--poll", is_flag=True, help="For network shares and containers, which tell nobody of changes.")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@config_option
def serve(
    runs: Path | None,
    out: Path | None,
    host: str,
    allow: tuple[str, ...],
    port: int,
    poll: bool,
    no_open: bool,
    config: Path | None,
) -> None:
    """Serve the site, and update open pages while runs grow."""
    from touchstone.live.serving import Serving, serving, wait_for_ever

    settings = load_settings(config)
    options = build_options(settings, runs, out)
    if host not in ("127.0.0.1", "localhost", "::1"):
        note(f"warning: listening on {host}; everyone who can reach this machine can read the site")
    with serving(options, Serving(host, port, frozenset(allow), poll), note) as (server, _):
        click.echo(server.url)
        note("Ctrl-C ends it")
        if not no_open:
            click.launch(server.url)
        wait_for_ever()
