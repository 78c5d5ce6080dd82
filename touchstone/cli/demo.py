"""`touchstone demo`: the sample runs as a site, and one of them replayed."""

from __future__ import annotations

import click

from touchstone.cli.common import note


@click.command()
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--once", is_flag=True, help="For scripts: replay at once, keep the site, and end.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to serve; 0 takes a free port.")
def demo(no_open: bool, once: bool, port: int) -> None:
    """Look at sample runs, and watch one of them being judged again.

    The judging that you watch is a recorded one, played back into a copy; no model is needed.
    """
    from touchstone import demo as show

    if once:
        click.echo(show.once(note))
        return
    for line in show.live(note, port=port):
        click.echo(line)
        if not no_open:
            click.launch(line)
