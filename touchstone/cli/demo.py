"""`touchstone demo`: the sample runs as a site, and one of them replayed."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Look at sample runs, and watch one of them grow."""
