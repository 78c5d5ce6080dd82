"""`touchstone judge`: let a judge score every answer of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from touchstone.cli.common import (
    LocalPath,
    Settings,
    api_key,
    config_option,
    live_page,
    load_settings,
    note,
    tell,
    the_bundle,
    web_options,
)

if TYPE_CHECKING:
    from touchstone.contracts.lines import Key, RepeatedVerdict, Report, Verdict
    from touchstone.judge import Plan
    from touchstone.judge_estimate import Estimate
    from touchstone.judge_session import Outcome, Request
    from touchstone.self_consistency import Consistency
    from touchstone.shards import Shard
    from touchstone.view import BundleView

MOST_ROUNDS = 100


def _shard(ctx: click.Context, param: click.Parameter, text: str | None) -> Shard | None:
    if text is None:
        return None
    from touchstone.shards import Shard

    try:
        return Shard.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("--bundle", type=LocalPath(), help="The run to judge.  [default: the newest]")
@click.option(
    "--judge-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML with the same keys as judge: in touchstone.yaml.",
)
@click.option("--into", metavar="NAME", help="Judge the same answers with another judge, in a run beside this one.")
@click.option("--restart", is_flag=True, help="Set the earlier judging aside and begin anew.")
@click.option("--events", is_flag=True, help="Also write judge_events.jsonl, which tells others how the run goes on.")
@click.option(
    "--shard",
    metavar="K/N",
    callback=_shard,
    help="Judge only the K-th of N equal parts of the answers, and write verdicts only; touchstone merge joins them.",
)
@click.option("--dry-run", is_flag=True, help="Say how many calls, tokens and how long; ask and write nothing.")
@click.option(
    "--repeat-judge",
    metavar="N",
    type=click.IntRange(2, MOST_ROUNDS),
    help="Afterwards judge a sample N times again, to see whether the judge agrees with itself.",
)
@click.option(
    "--sample", metavar="K", type=click.IntRange(1), help="How many answers that sample has, with --repeat-judge."
)
@web_options
@config_option
def judge(
    bundle: Path | None,
    judge_config: Path | None,
    into: str | None,
    restart: bool,
    events: bool,
    shard: Shard | None,
    dry_run: bool,
    repeat_judge: int | None,
    sample: int | None,
    web: bool,
    port: int | None,
    no_open: bool,
    config: Path | None,
) -> None:
    """Let the judge score every answer, then every model as a whole."""
    if into is not None and restart:
        raise click.UsageError("--into leaves the earlier judging as it is, --restart replaces it; choose one")
    if (repeat_judge is None) != (sample is None):
        raise click.UsageError("--repeat-judge N and --sample K go together: K answers are judged N times again")
    if shard is not None and repeat_judge is not None:
        raise click.UsageError("--shard writes verdicts only; use --repeat-judge on the merged run")
    settings = load_settings(config)
    if dry_run:
        request = make_request(settings, the_bundle(bundle, settings), judge_config, into, restart, events or web)
        forecast(replace(request, shard=shard, rounds=repeat_judge or 0, sample=sample or 0))
        return
    with live_page("judge", settings, web, port, no_open) as page:
        request = make_request(settings, the_bundle(bundle, settings), judge_config, into, restart, events or web)
        request = replace(request, shard=shard, rounds=repeat_judge or 0, sample=sample or 0)
        options: list[object] = [] if judge_config is None else ["--judge-config", judge_config]
        options += [] if shard is None else ["--shard", shard]
        options += [] if config is None else ["--config", config]
        outcome = run_judge(request, page.open, options)
        page.settle()
        conclude(outcome, shard)


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


def run_judge(
    request: Request, opened: Callable[[Path], None] = lambda bundle: None, options: Sequence[object] = ()
) -> Outcome:
    """Runs it and says on stderr how it goes, and which command does what is left.

    `opened` hears which bundle is being written; `options` are those of that command besides the bundle.
    """
    from touchstone.cli.terminal import command, display
    from touchstone.judge_session import Progress, judge_bundle

    with display("verdicts") as shown:
        tally = _Tally()
        planned: list[Plan] = []
        again: list[str] = []
        askable: set[Key] = set()
        missed: set[Key] = set()

        def tell_of_reports() -> None:
            if tally.count == planned[0].total and planned[0].report_todo:
                shown.busy("every answer is judged; now each model as a whole")

        def started(bundle: Path, plan: Plan) -> None:
            opened(bundle)
            planned.append(plan)
            again.append(command("touchstone", "judge", "--bundle", bundle, *options))
            askable.update(item.answer.key for item in plan.todo if item.answer.judgeable)
            for verdict in plan.prior.values():
                tally.add(verdict)
            shown.begin(plan.total, len(plan.prior))
            before = f", {len(plan.prior)} judged before" if plan.prior else ""
            shown.note(f"{bundle}: {plan.total} answers{before}, judge {request.model}")
            tell_of_reports()

        def judged(verdict: Verdict) -> None:
            tally.add(verdict)
            if verdict.unscored and verdict.key in askable:
                missed.add(verdict.key)
            flag = "  RED FLAG" if verdict.red_flag else ""
            line = f"{verdict.model} {verdict.variant} {verdict.prompt_id}  {_result(verdict)}{flag}"
            shown.busy(f"{verdict.model} · {verdict.variant}")
            shown.step(line, facts=tally.facts, quiet=not (flag or verdict.unscored))
            tell_of_reports()

        def reported(report: Report) -> None:
            scores = ", ".join(f"{name} {score or '-'}" for name, score in report.dim_scores.items())
            shown.note(f"report  {report.model} {report.variant}  {report.error or scores}")

        def repeated(verdict: RepeatedVerdict) -> None:
            key = f"{verdict.model} {verdict.variant} {verdict.prompt_id}"
            shown.note(f"repeat {verdict.round}  {key}  {_result(verdict)}")

        progress = Progress(note=shown.note, started=started, verdict=judged, report=reported, repeated=repeated)
        try:
            outcome = judge_bundle(request, progress)
        except KeyboardInterrupt:
            if again:
                shown.note(f"to go on from here: {again[0]}")
            raise
        if missed:
            shown.note(f"the judge failed on {len(missed)} of the answers; to ask for these again: {again[0]}")
        return outcome


def _result(verdict: Verdict) -> str:
    return f"unscored: {verdict.error}" if verdict.unscored else f"{verdict.score}/5"


class _Tally:
    """What a run's bar says of the verdicts so far."""

    def __init__(self) -> None:
        self._scored = self._sum = self._flags = self._unscored = 0

    def add(self, verdict: Verdict) -> None:
        if verdict.unscored or verdict.score is None:
            self._unscored += 1
        else:
            self._scored += 1
            self._sum += verdict.score
            self._flags += bool(verdict.red_flag)

    @property
    def count(self) -> int:
        return self._scored + self._unscored

    @property
    def facts(self) -> str:
        mean = f"mean {self._sum / self._scored:.2f}, " if self._scored else ""
        return f"{mean}{self._flags} red flags, {self._unscored} unscored"


def conclude(outcome: Outcome, shard: Shard | None = None) -> None:
    """The scorecard on stdout, the next step on stderr."""
    view = outcome.view
    tally = view.judge.tally
    tell(f"{outcome.bundle}: {tally.done} verdicts, {tally.unscored} unscored, {tally.red_flags} red flags")
    if shard is not None:
        note(f"shard {shard} is judged; next: touchstone merge, once all {shard.n} are there")
        return
    if view.rows:
        tell(scorecard_table(view))
    if outcome.consistency is not None:
        tell(in_words(outcome.consistency))
    note("next: touchstone build")


def scorecard_table(view: BundleView) -> str:
    """The master scorecard as text, best cell first."""
    from touchstone.cli.terminal import table
    from touchstone.i18n import Words
    from touchstone.report_md import quality_words, recommendation_words, safety_words

    words = Words("en")
    heads = ["recommendation", "quality", "mean", "red flags", "unscored", "model", "variant", "safety"]
    rows = [
        [
            recommendation_words(row.recommendation, words),
            quality_words(row, words),
            None if row.tally.mean is None else f"{row.tally.mean:.2f}",
            row.tally.flagged,
            row.tally.unscored,
            row.cell.model,
            row.cell.variant,
            safety_words(row.safety, view.pack, words),
        ]
        for row in view.rows
    ]
    return table(heads, rows, right=(1, 2, 3, 4))


def in_words(consistency: Consistency) -> str:
    """How much the judge agrees with itself, in one line."""
    unscored = f", {consistency.unscored} repeats unscored" if consistency.unscored else ""
    if consistency.mean_range is None:
        return f"self-consistency: unknown, no answer has two scored repeats{unscored}"
    return (
        f"self-consistency: {consistency.identical} of {consistency.n} answers got the same verdict every time, "
        f"scores spread by {consistency.mean_range:.2f} on average{unscored}"
    )


def forecast(request: Request) -> None:
    """What the run would cost, on stdout."""
    from touchstone.judge_session import estimate_bundle

    for line in estimate_lines(estimate_bundle(request)):
        tell(line)
    note("nothing was asked or written")


def estimate_lines(found: Estimate) -> list[str]:
    """An estimate as a small table."""
    from touchstone.cli.terminal import duration

    if not found.calls:
        return ["nothing to ask: every answer has its verdict, every model its report"]
    parts = [(found.verdicts, "verdicts"), (found.reports, "reports"), (found.repeats, "repeats")]
    details = ", ".join(f"{count} {name}" for count, name in parts if count)
    if found.without_call:
        details += f"; {found.without_call} without an answer to judge cost none"
    pace = (
        "no verdict of this judge to measure by" if found.seconds is None else "as fast as this judge was here before"
    )
    return [
        f"calls              {found.calls:>10,}   {details}",
        f"prompt tokens      {found.prompt_tokens:>10,}   estimated",
        f"completion tokens  {found.completion_tokens:>10,}   estimated; at most {found.most_completion_tokens:,}",
        f"time               {duration(found.seconds):>10}   {pace}",
    ]
