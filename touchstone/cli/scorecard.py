"""`touchstone scorecard`: the scorecard of a run, from what is judged."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli.common import LocalPath, config_option, load_settings, tell, the_bundle


@click.command()
@click.argument("bundle", required=False, metavar="[DIR]", type=LocalPath())
@config_option
def scorecard(bundle: Path | None, config: Path | None) -> None:
    """Write scorecard.md again, from the verdicts and reports that are there."""
    from datetime import UTC, datetime

    from touchstone.bundle import open_bundle
    from touchstone.errors import BundleError
    from touchstone.judge_session import write_scorecard
    from touchstone.store.lock import exclusive

    settings = load_settings(config)
    path = the_bundle(bundle, settings)
    with exclusive(path, "scorecard"):
        view = open_bundle(path).whole()
        if not view.judged:
            raise BundleError(f"{path}: nothing is judged here yet; run `touchstone judge --bundle {path}` first")
        if view.pack is None:
            raise BundleError(
                f"{path}: has no readable pack.yaml, so there are no weights; `touchstone check` says more"
            )
        tell(write_scorecard(path, view, datetime.now(UTC)))
