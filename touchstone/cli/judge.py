"""`touchstone judge`: let a judge score every answer of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.cli.common import (
    Settings,
    api_key,
    config_option,
    live_page,
    load_settings,
    note,
    the_bundle,
    web_options,
)

if TYPE_CHECKING:
    from touchstone.judge_session import Outcome, Request


@click.command()
@click.option("--bundle", type=click.Path(path_type=Path), help="The run to judge.  [default: the newest]")
@click.option(
    "--judge-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML with the same keys as judge: in touchstone.yaml.",
)
@click.option("--into", metavar="NAME", help="Judge the same answers with another judge, in a run beside this one.")
@click.option("--restart", is_flag=True, help="Set the earlier judging aside and begin anew.")
@click.option("--events", is_flag=True, help="Also write judge_events.jsonl, which tells others how the run goes on.")
@web_options
@config_option
def judge(
    bundle: Path | None,
    judge_config: Path | None,
    into: str | None,
    restart: bool,
    events: bool,
    web: bool,
    port: int | None,
    no_open: bool,
    config: Path | None,
) -> None:
    """Let the judge score every answer, then every model as a whole."""
    if into is not None and restart:
        raise click.UsageError("--into leaves the earlier judging as it is, --restart replaces it; choose one")
    settings = load_settings(config)
    with live_page("judge", settings, web, port, no_open) as page:
        request = make_request(settings, the_bundle(bundle, settings), judge_config, into, restart, events or web)
        outcome = run_judge(request, page.open)
        page.settle()
        conclude(outcome)


def make_request(
    settings: Settings, bundle: Path, judge_config: Path | None, into: str | None, restart: bool, events: bool
) -> Request:
    """The request from config and flags. Raises click.UsageError for what is missing."""
    from touchstone.contracts.config import parse_judge_config
    from touchstone.judge_session import Request

    chosen, home = settings.config.judge, settings.home
    if judge_config is not None:
        chosen, home = parse_judge_config(judge_config.read_bytes(), str(judge_config)), judge_config.parent
    if not chosen.servers:
        raise click.UsageError("which server? add judge.endpoint to touchstone.yaml, or name a --judge-config")
    if chosen.model is None:
        raise click.UsageError("which model judges? add judge.model to touchstone.yaml, or name a --judge-config")
    return Request(
        bundle=bundle,
        config=chosen,
        model=chosen.model,
        endpoints=chosen.servers,
        api_key=api_key(chosen.api_key_env),
        prompt=None if chosen.prompt is None else home / Path(chosen.prompt).expanduser(),
        into=into,
        restart=restart,
        events=events,
    )


def run_judge(request: Request, opened: Callable[[Path], None] = lambda bundle: None) -> Outcome:
    """Runs it and says on stderr how it goes. `opened` hears which bundle is being written."""
    from touchstone.contracts.lines import Report, Verdict
    from touchstone.judge import Plan
    from touchstone.judge_session import Progress, judge_bundle

    state = {"done": 0, "total": 0}

    def started(bundle: Path, plan: Plan) -> None:
        opened(bundle)
        state.update(done=len(plan.prior), total=plan.total)
        before = f", {len(plan.prior)} judged before" if plan.prior else ""
        note(f"{bundle}: {plan.total} answers{before}, judge {request.model}")

    def judged(verdict: Verdict) -> None:
        state["done"] += 1
        result = f"unscored: {verdict.error}" if verdict.unscored else f"{verdict.score}/5"
        flag = "  RED FLAG" if verdict.red_flag else ""
        key = f"{verdict.model} {verdict.variant} {verdict.prompt_id}"
        note(f"{state['done']}/{state['total']}  {key}  {result}{flag}")

    def reported(report: Report) -> None:
        scores = ", ".join(f"{name} {score or '-'}" for name, score in report.dim_scores.items())
        note(f"report  {report.model} {report.variant}  {report.error or scores}")

    return judge_bundle(request, Progress(note=note, started=started, verdict=judged, report=reported))


def conclude(outcome: Outcome) -> None:
    """The scorecard on stdout, the next step on stderr."""
    view = outcome.view
    tally = view.judge.tally
    click.echo(f"{outcome.bundle}: {tally.done} verdicts, {tally.unscored} unscored, {tally.red_flags} red flags")
    for row in view.rows:
        pct = "-" if row.weighted.pct is None else f"{row.weighted.pct:.1f}%"
        reason = f"  ({row.safety.reason})" if row.safety.reason else ""
        click.echo(f"  {row.recommendation or '-':17} {pct:>6}  {row.cell.model} {row.cell.variant}{reason}")
    note("next: touchstone build")
