"""`touchstone run`: eval, judge and build in one go."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli import build, evaluate, judge
from touchstone.cli.common import config_option, live_page, load_settings, web_options


@click.command()
@web_options
@config_option
def run(web: bool, port: int | None, no_open: bool, config: Path | None) -> None:
    """Eval, judge and build in one go, as touchstone.yaml says."""
    settings = load_settings(config)
    # Whatever is missing for the judge is said before an hour of answers, not after.
    judge.make_request(settings, Path(), None, None, False, True)
    request = evaluate.make_request(settings, {}, None, None, True)
    # One page for both: the eval monitor leads to the judge monitor.
    with live_page("eval", settings, web, port, no_open) as page:
        answers = evaluate.run_eval(request, page.open)
        evaluate.summarize(answers)
        outcome = judge.run_judge(judge.make_request(settings, answers.bundle, None, None, False, True))
        page.settle()
        judge.conclude(outcome)
        from touchstone.build import build as build_site

        options = build.build_options(settings)
        build.report(build_site(options), options.out)
        if answers.unasked:
            raise SystemExit(1)
