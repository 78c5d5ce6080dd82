"""`touchstone check`: what is wrong with a bundle, a pack or a response, line by line."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli.common import config_option, load_settings, note, the_bundle


@click.command()
@click.argument("target", required=False, metavar="[DIR|FILE]", type=click.Path(path_type=Path))
@config_option
def check(target: Path | None, config: Path | None) -> None:
    """Say what is wrong with a run, a pack or a response, line by line."""
    from touchstone.checking import check_bundle, check_file

    if target is not None and target.is_file():
        findings = check_file(target)
    else:
        target = the_bundle(target, load_settings(config))
        findings = check_bundle(target)
    for line in findings:
        click.echo(line)
    if findings:
        raise SystemExit(1)
    note(f"{target}: nothing wrong")
