"""`touchstone eval`: ask the models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from touchstone.cli.common import (
    Settings,
    api_key,
    config_option,
    live_page,
    load_settings,
    note,
    runs_option,
    web_options,
)

if TYPE_CHECKING:
    from touchstone.contracts.config import EvalConfig
    from touchstone.eval_session import Outcome, Request


@click.command("eval")
@click.option("--pack", help="A pack file, or the id of one that ships (ndassist, everyday).")
@click.option("--model", "models", multiple=True, help="A model to ask; repeat the option for more.")
@click.option("--endpoint", help="OpenAI-compatible server, e.g. http://localhost:1234.")
@click.option("--variant", "variants", multiple=True, help="Only this variant of the pack; may be repeated.")
@click.option("--repeats", type=click.IntRange(1, 1000), help="How often each question is asked.  [default: 1]")
@runs_option
@click.option(
    "--resume", type=click.Path(path_type=Path, file_okay=False), help="Go on with an interrupted run in this folder."
)
@click.option("--events", is_flag=True, help="Also write events.jsonl, which tells others how the run goes on.")
@web_options
@config_option
def evaluate(
    pack: str | None,
    models: tuple[str, ...],
    endpoint: str | None,
    variants: tuple[str, ...],
    repeats: int | None,
    runs: Path | None,
    resume: Path | None,
    events: bool,
    web: bool,
    port: int | None,
    no_open: bool,
    config: Path | None,
) -> None:
    """Ask models every prompt of a pack; makes a run."""
    settings = load_settings(config)
    given: dict[str, Any] = {"pack": pack, "endpoint": endpoint, "repeats": repeats}
    given |= {"models": list(models) or None, "variants": list(variants) or None}
    if resume is not None and any(value is not None for value in given.values() if value is not endpoint):
        raise click.UsageError("--resume goes on with the run's own pack, models and variants; leave those options out")
    with live_page("eval", settings, web, port, no_open) as page:
        outcome = run_eval(make_request(settings, given, runs, resume, events or web), page.open)
        page.settle()
        conclude(outcome)


def make_request(
    settings: Settings, given: dict[str, Any], runs: Path | None, resume: Path | None, events: bool
) -> Request:
    """The request from config and flags; flags win. Raises click.UsageError for what is missing."""
    from touchstone.eval_session import Request
    from touchstone.resources import find_pack

    changes = {name: value for name, value in given.items() if value is not None}
    chosen = _checked(settings.config.eval, changes)
    if chosen.endpoint is None:
        raise click.UsageError("which server? add --endpoint URL, or eval.endpoint to touchstone.yaml")
    pack = None
    if resume is None:
        if chosen.pack is None:
            raise click.UsageError(
                "which pack? add --pack FILE (or ndassist, everyday), or eval.pack to touchstone.yaml"
            )
        if not chosen.models:
            raise click.UsageError("which model? add --model NAME, or eval.models to touchstone.yaml")
        local = settings.path(chosen.pack)
        pack = local if given.get("pack") is None and local.is_file() else find_pack(chosen.pack)
    return Request(
        config=chosen,
        endpoint=chosen.endpoint,
        runs=runs or settings.runs,
        pack=pack,
        resume=resume,
        api_key=api_key(chosen.api_key_env),
        events=events,
    )


def _checked(config: EvalConfig, changes: dict[str, Any]) -> EvalConfig:
    """The config with the flags on top. Raises click.UsageError for a value that no run can have."""
    from pydantic import ValidationError

    from touchstone.contracts.config import EvalConfig as Model
    from touchstone.jsonsource import explain

    try:
        return Model.model_validate({**config.model_dump(), **changes})
    except ValidationError as error:
        raise click.UsageError(explain(error)) from None


def run_eval(request: Request, opened: Callable[[Path], None] = lambda bundle: None) -> Outcome:
    """Runs it and says on stderr how it goes. `opened` hears which bundle is being written."""
    from touchstone.contracts.lines import Answer
    from touchstone.eval_session import Progress
    from touchstone.eval_session import evaluate as run

    state = {"done": 0, "total": 0}

    def started(bundle: Path, total: int, left: int) -> None:
        opened(bundle)
        state.update(done=total - left, total=total)
        note(f"{bundle}: {total} questions" + (f", {total - left} answered before" if left < total else ""))

    def answered(answer: Answer) -> None:
        state["done"] += 1
        end = f": {answer.error or answer.status}" if answer.status != "ok" else ""
        note(f"{state['done']}/{state['total']}  {answer.model} {answer.variant} {answer.prompt_id}{end}")

    return run(request, Progress(note=note, started=started, answer=answered))


def conclude(outcome: Outcome) -> None:
    """The result on stdout, the next step on stderr; exit 1 if a model could not be asked at all."""
    counts = ", ".join(f"{count} {status}" for status, count in sorted(outcome.answers.items()))
    click.echo(f"{outcome.bundle}: {sum(outcome.answers.values())} of {outcome.total} answers ({counts})")
    if outcome.unasked:
        note(f"{outcome.unasked} questions could not be asked; `touchstone eval --resume {outcome.bundle}` asks them")
        raise SystemExit(1)
    note(f"next: touchstone judge --bundle {outcome.bundle}")
