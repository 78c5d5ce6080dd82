"""`touchstone merge`: several runs of one pack as one."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli.common import LocalPath, note, tell


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=LocalPath(exists=True, file_okay=False))
@click.option("--into", metavar="NAME", required=True, help="Name of the new run, which is made beside the first one.")
def merge(folders: tuple[Path, ...], into: str) -> None:
    """Join runs of one pack: parts that were judged apart, or models that were asked apart."""
    from touchstone.cli.terminal import command
    from touchstone.merging import merge as join

    if len(folders) < 2:
        raise click.UsageError("there is nothing to join; name at least two runs")
    made = join(folders, into)
    for text in made.notes:
        note(text)
    tell(f"{made.bundle}: {made.answers} answers, {made.verdicts} verdicts, {made.reports} reports")
    note(f"next: {command('touchstone', 'judge', '--bundle', made.bundle)}")
