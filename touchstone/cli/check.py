"""`touchstone check`: what is wrong with a bundle, a pack or a response, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.cli.common import Source, config_option, fetched, load_settings, note, tell, the_bundle

if TYPE_CHECKING:
    from touchstone.store.address import Address


@click.command()
@click.argument("target", required=False, metavar="[DIR|FILE|URL]", type=Source())
@config_option
def check(target: Path | Address | None, config: Path | None) -> None:
    """Say what is wrong with a run, a pack or a response, line by line."""
    from touchstone.checking import check_bundle, check_file
    from touchstone.store.bundles import newest_bundle

    settings = load_settings(config)
    source = settings.source if target is None else target
    if not isinstance(source, Path):
        folder = fetched(source, settings.home)
        bundle = folder if target is not None else newest_bundle(folder)
        shown = str(source) if target is not None else f"{source}/{bundle.relative_to(folder).as_posix()}"
        # Found in the mirror, but meant is what it mirrors.
        findings = [line.replace(str(bundle), shown) for line in check_bundle(bundle)]
    elif target is not None and source.is_file():
        shown, findings = str(source), check_file(source)
    else:
        bundle = the_bundle(None if target is None else source, settings)
        shown, findings = str(bundle), check_bundle(bundle)
    for line in findings:
        tell(line)
    if findings:
        raise SystemExit(1)
    note(f"{shown}: nothing wrong")
