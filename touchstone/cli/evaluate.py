"""`touchstone eval`: ask the models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from touchstone.cli.common import (
    LocalPath,
    Settings,
    api_key,
    config_option,
    live_page,
    load_settings,
    note,
    runs_option,
    tell,
    web_options,
)

if TYPE_CHECKING:
    from touchstone.contracts.config import EvalConfig
    from touchstone.contracts.lines import Answer
    from touchstone.eval_session import Outcome, Request


@click.command("eval")
@click.option("--pack", help="A pack file, or the id of one that ships (ndassist, everyday).")
@click.option("--model", "models", multiple=True, help="A model to ask; repeat the option for more.")
@click.option("--endpoint", help="OpenAI-compatible server, e.g. http://localhost:1234.")
@click.option("--variant", "variants", multiple=True, help="Only this variant of the pack; may be repeated.")
@click.option("--repeats", type=click.IntRange(1, 1000), help="How often each question is asked.  [default: 1]")
@runs_option
@click.option("--resume", type=LocalPath(file_okay=False), help="Go on with an interrupted run in this folder.")
@click.option("--events", is_flag=True, help="Also write events.jsonl and resources.jsonl, the machine's load.")
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
    from touchstone.cli.terminal import command, display
    from touchstone.errors import MachineError
    from touchstone.eval_session import Progress
    from touchstone.eval_session import evaluate as run

    folder: list[Path] = []
    with display("answers") as shown:

        def started(bundle: Path, total: int, left: int) -> None:
            folder.append(bundle)
            opened(bundle)
            shown.begin(total, total - left)
            shown.note(f"{bundle}: {total} questions" + (f", {total - left} answered before" if left < total else ""))

        tally = _Tally()

        def answered(answer: Answer) -> None:
            tally.add(answer)
            end = f": {answer.error or answer.status}" if answer.status != "ok" else ""
            line = f"{answer.model} {answer.variant} {answer.prompt_id}{end}"
            shown.busy(f"{answer.model} · {answer.variant}")
            shown.step(line, facts=tally.facts, quiet=not end)

        def model(name: str, questions: int) -> None:
            tally.rates.clear()
            shown.busy(f"{name}: loading, then {questions} questions")

        try:
            return run(request, Progress(shown.note, started, model, answered))
        except (KeyboardInterrupt, MachineError):
            if folder and folder[0].is_dir():
                shown.note(f"to go on from here: {command('touchstone', 'eval', '--resume', folder[0])}")
            raise


class _Tally:
    """What a run's bar says of the answers so far."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        """Generated tokens per second of the model that is being asked."""
        self._odd: Counter[str] = Counter()

    def add(self, answer: Answer) -> None:
        rate = None if answer.metrics is None else answer.metrics.gen_tps
        if rate is not None:
            self.rates.append(rate)
        if answer.status not in ("ok", None):
            self._odd[{"error": "failed", "truncated": "cut off"}.get(answer.status, answer.status)] += 1

    @property
    def facts(self) -> str:
        from touchstone.statistics import median

        rate = median(self.rates)
        speed = [] if rate is None else [f"{rate:.1f} tokens/s"]
        return ", ".join([*speed, *(f"{count} {word}" for word, count in sorted(self._odd.items()))])


def summarize(outcome: Outcome) -> None:
    """What came of it, on stdout."""
    counts = ", ".join(f"{count} {status}" for status, count in sorted(outcome.answers.items()))
    tell(f"{outcome.bundle}: {sum(outcome.answers.values())} of {outcome.total} answers ({counts})")
    tell(speed_table(outcome.bundle))


def conclude(outcome: Outcome) -> None:
    """The result on stdout, the next step on stderr; exit 1 if a model could not be asked at all."""
    from touchstone.cli.terminal import command

    summarize(outcome)
    if outcome.unasked:
        resume = command("touchstone", "eval", "--resume", outcome.bundle)
        note(f"{outcome.unasked} questions could not be asked; to ask them: {resume}")
        raise SystemExit(1)
    note(f"next: {command('touchstone', 'judge', '--bundle', outcome.bundle)}")


def speed_table(bundle: Path) -> str:
    """What each model's answers took, as text."""
    from touchstone.bundle import open_bundle
    from touchstone.cli.terminal import table

    def seconds(value: float | None) -> str | None:
        return None if value is None else f"{value:.2f} s"

    def rate(value: float | None) -> str | None:
        return None if value is None else f"{value:.1f}"

    heads = ["answers", "failed", "cut off", "empty", "latency", "p95", "first token", "tokens/s", "load", "model"]
    rows = [
        [
            speed.answers, speed.errors, speed.truncated, speed.empty, seconds(speed.latency_p50),
            seconds(speed.latency_p95), seconds(speed.ttft_p50), rate(speed.gen_tps), seconds(speed.load_s),
            speed.model,
        ]
        for speed in open_bundle(bundle).refresh().eval.speeds()
    ]  # fmt: skip
    return table(heads, rows, right=range(9))
