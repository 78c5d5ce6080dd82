"""A judge run on disk: finds out what is left, holds the bundle, appends every result, ends cleanly.

`judge` knows what to ask and what to make of the replies; this is the shell around it. Whatever ends a run (Ctrl-C,
a dead endpoint, `kill -9`), what was judged is in judgements.jsonl, and the next run goes on from there.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import yaml

from touchstone import yamlsource
from touchstone.bundle import open_bundle
from touchstone.chat.http import Endpoint
from touchstone.contracts.config import JudgeConfig
from touchstone.contracts.lines import Answer, Cell, Key, Report, Verdict
from touchstone.contracts.pack import Pack, parse_pack
from touchstone.errors import BundleError
from touchstone.i18n import Words
from touchstone.jsonsource import Refused, parse_model
from touchstone.judge import Callbacks, Judging, Numbered, Plan, plan, refuse_other_judge
from touchstone.judge_events import JudgeDone, JudgeStart, Master, verdict_event
from touchstone.judge_prompts import Templates
from touchstone.report_md import render_scorecard_md
from touchstone.resources import prompt_template
from touchstone.slugs import is_plain
from touchstone.store.bundles import is_bundle, read_document
from touchstone.store.lines import LogTail
from touchstone.store.lock import exclusive
from touchstone.store.write import JsonlWriter, machine_error, replace_file, retry_locked, save
from touchstone.view import BundleView

M = TypeVar("M", Answer, Verdict, Report)

JUDGED: Final = (
    "judgements.jsonl",
    "judge_events.jsonl",
    "reports.jsonl",
    "self_consistency.jsonl",
    "scorecard.md",
    "judge_quality.md",
)
"""What judging makes; the files of the reference check (`judge_meta_*`) come on top."""
CARRIED: Final = ("pack.yaml", "answers.jsonl", "events.jsonl", "resources.jsonl")
"""What a sibling bundle for another judge takes along, besides bundle.yaml."""


@dataclass(frozen=True)
class Request:
    """What `touchstone judge` was asked for."""

    bundle: Path
    config: JudgeConfig
    model: str
    endpoint: str
    api_key: str | None = None
    prompt: Path | None = None
    """The user's own verdict template."""
    into: str | None = None
    restart: bool = False
    events: bool = False
    """Write judge_events.jsonl too."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    bundle: Path
    view: BundleView
    asked: int
    """Fresh verdicts of this run."""


@dataclass
class Progress:
    """Told as the run goes on; all default to silence."""

    note: Callable[[str], None] = lambda text: None
    started: Callable[[Path, Plan], None] = lambda bundle, plan: None
    verdict: Callable[[Verdict], None] = lambda verdict: None
    report: Callable[[Report], None] = lambda report: None


@dataclass
class _Bundle:
    """What is in the bundle before the run."""

    pack: Pack
    answers: list[Numbered]
    verdicts: dict[Key, Verdict]
    reports: dict[Cell, Report]


def judge_bundle(request: Request, progress: Progress | None = None) -> Outcome:
    """Judge what is left of a bundle. Raises TouchstoneError; KeyboardInterrupt passes after everything is closed."""
    return asyncio.run(_judge(request, progress or Progress(), time.time))


async def _judge(request: Request, progress: Progress, clock: Callable[[], float]) -> Outcome:
    templates = _templates(request)
    bundle = _target(request, progress)
    with exclusive(bundle, "judge"):
        if request.restart:
            _set_aside(bundle, progress)
        content = _read(bundle)
        refuse_other_judge(
            content.verdicts.values(), content.reports.values(), request.model, templates.sha, str(bundle)
        )
        todo = plan(content.answers, content.verdicts, content.reports, content.pack)
        progress.started(bundle, todo)
        asked = await _Run(request, bundle, content.pack, templates, todo, progress, clock).run()
        return Outcome(bundle, open_bundle(bundle).refresh(), asked)


def _templates(request: Request) -> Templates:
    language = request.config.language or _pack_of(request.bundle).language
    verdict = prompt_template("verdict", language)
    if request.prompt is not None:
        try:
            verdict = request.prompt.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BundleError(f"{request.prompt}: the judge prompt cannot be read: {error}") from None
    return Templates(verdict, prompt_template("report", language), str(request.prompt or f"verdict.{language}.md"))


def _pack_of(bundle: Path) -> Pack:
    if not bundle.is_dir():
        raise BundleError(f"{bundle}: no such folder; name a bundle, or run `touchstone eval` first")
    data = read_document(bundle / "pack.yaml")
    if data is None:
        raise BundleError(
            f"{bundle}: has no pack.yaml, so there is nothing to judge by; copy the pack it was asked with"
        )
    return parse_pack(data, str(bundle / "pack.yaml"))


# -- which bundle


def _target(request: Request, progress: Progress) -> Path:
    if request.into is None:
        return request.bundle
    if not is_plain(request.into) or request.into.endswith(".old"):
        raise BundleError(f"--into {request.into}: must be a plain folder name; it is made beside {request.bundle}")
    target = request.bundle.resolve().parent / request.into
    if target == request.bundle.resolve():
        raise BundleError(f"--into {request.into}: is the bundle itself; choose another name")
    if target.exists():
        if not is_bundle(target) or _derived_from(target) != request.bundle.resolve().name:
            raise BundleError(f"{target}: is there already and was not made from {request.bundle}; choose another name")
        progress.note(f"{target}: is there already; going on with it")
        return target
    _derive(request.bundle, target)
    return target


def _derived_from(bundle: Path) -> str | None:
    manifest = open_bundle(bundle).refresh().manifest
    return None if manifest is None else manifest.derived_from


def _derive(source: Path, target: Path) -> None:
    """A sibling with the same answers: complete, or not there at all."""
    beside = target.with_name(f".{target.name}.tmp")
    fields = {"schema": 1, **yamlsource.mapping(read_document(source / "bundle.yaml"))}
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        for name in CARRIED:
            if (source / name).is_file() and not (source / name).is_symlink():
                shutil.copyfile(source / name, beside / name)
        text = yaml.safe_dump({**fields, "derived_from": source.resolve().name}, allow_unicode=True, sort_keys=False)
        replace_file(beside / "bundle.yaml", text.encode("utf-8"), sync=True)
        retry_locked(lambda: beside.rename(target))
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise machine_error(target, error) from error


def _set_aside(bundle: Path, progress: Progress) -> None:
    """Rename all that the earlier judging made, so that no reader sees it and nobody misses it."""
    made = [path for path in sorted(bundle.iterdir()) if path.name in JUDGED or path.name.startswith("judge_meta_")]
    made = [path for path in made if not path.name.endswith(".old")]
    if not made:
        return
    number = 1
    while any(path.with_name(f"{path.name}.{number}.old").exists() for path in made):
        number += 1
    try:
        for path in made:
            retry_locked(lambda path=path: path.rename(path.with_name(f"{path.name}.{number}.old")))  # type: ignore[misc]
    except OSError as error:
        raise machine_error(bundle, error) from error
    progress.note(f"{bundle}: the earlier judging is set aside as *.{number}.old")


# -- what is in it


def _lines(path: Path, model: type[M]) -> Iterator[tuple[int, bytes, M | None]]:
    """(index, bytes, parsed or None where it is broken) of each line."""
    for line in LogTail(path).read():
        if line.data is None or not line.data.strip():
            continue
        try:
            yield line.index, line.data, parse_model(model, line.data)
        except Refused:
            yield line.index, line.data, None


def _read(bundle: Path) -> _Bundle:
    answers = [Numbered(i, answer) for i, _, answer in _lines(bundle / "answers.jsonl", Answer) if answer is not None]
    if not answers:
        raise BundleError(f"{bundle}: has no answers to judge; run `touchstone eval` first")
    verdicts = {item.key: item for _, _, item in _lines(bundle / "judgements.jsonl", Verdict) if item is not None}
    reports = {item.cell: item for _, _, item in _lines(bundle / "reports.jsonl", Report) if item is not None}
    return _Bundle(_pack_of(bundle), answers, verdicts, reports)


# -- the run


@dataclass
class _Run:
    request: Request
    bundle: Path
    pack: Pack
    templates: Templates
    plan: Plan
    progress: Progress
    clock: Callable[[], float]
    asked: int = 0
    scored: int = 0
    files: ExitStack = field(default_factory=ExitStack)

    async def run(self) -> int:
        with self.files:
            self.judgements = self._writer("judgements.jsonl", sync=True, cut_half=True)
            self.reports = self._writer("reports.jsonl", sync=True, cut_half=True)
            self.events = (
                self._writer("judge_events.jsonl", sync=False, cut_half=False) if self.request.events else None
            )
            try:
                await self._ask()
                self._tidy()
                self._conclude()
            finally:
                if self.events is not None:
                    self.events.append(JudgeDone(ts=self.clock(), total=self.plan.total, scored=self.scored))
        return self.asked

    def _writer(self, name: str, *, sync: bool, cut_half: bool) -> JsonlWriter:
        return self.files.enter_context(JsonlWriter(self.bundle / name, sync=sync, cut_half=cut_half))

    async def _ask(self) -> None:
        # First of all, also where the endpoint turns out to be dead: a channel has no end without its beginning.
        self._on_start()
        if not self.plan.todo and not self.plan.report_todo:
            return
        request = self.request
        async with Endpoint(
            request.endpoint, api_key=request.api_key, timeout_s=request.config.timeout_s, on_note=self.progress.note
        ) as endpoint:
            await endpoint.greet()
            judging = Judging(
                pack=self.pack,
                config=request.config,
                model=request.model,
                templates=self.templates,
                ask=endpoint.ask,
                clock=self.clock,
                context_tokens=await endpoint.context_tokens(request.model),
                callbacks=Callbacks(self._on_verdict, self._on_report),
            )
            await judging.run(self.plan)

    def _on_start(self) -> None:
        prior = self.plan.standing
        self.scored = sum(not verdict.unscored for verdict in prior)
        if self.events is not None:
            self.events.append(JudgeStart(ts=self.clock(), total=self.plan.total, judge_model=self.request.model))
            positions = {item.answer.key: item.i for item in self.plan.answers}
            for verdict in prior:
                event = verdict_event(verdict, prior=True).model_copy(
                    update={"i": positions.get(verdict.key, verdict.i)}
                )
                self.events.append(event)

    def _on_verdict(self, verdict: Verdict) -> None:
        self.judgements.append(verdict)
        self.asked += 1
        self.scored += not verdict.unscored
        if self.events is not None:
            self.events.append(verdict_event(verdict, prior=False))
        self.progress.verdict(verdict)

    def _on_report(self, report: Report) -> None:
        self.reports.append(report)
        self.progress.report(report)

    def _tidy(self) -> None:
        """After a resumed run: one line a key, in the order of answers.jsonl; what nobody could read stays, last."""
        self.judgements.close()
        self.reports.close()
        keys: list[Key] = [item.answer.key for item in self.plan.answers]
        _rewrite(self.bundle / "judgements.jsonl", Verdict, lambda verdict: verdict.key, keys)
        _rewrite(self.bundle / "reports.jsonl", Report, lambda report: report.cell, list(self.plan.cells))

    def _conclude(self) -> None:
        """Scorecard and master events, computed here, where the pack is."""
        view = open_bundle(self.bundle).refresh()
        now = self.clock()
        write_scorecard(self.bundle, view, datetime.fromtimestamp(now, UTC))
        if self.events is not None:
            for event in master_events(view, now):
                self.events.append(event)


def _rewrite(path: Path, model: type[M], key_of: Callable[[M], object], order: Sequence[object]) -> None:
    winning: dict[object, bytes] = dict.fromkeys(order, b"")
    broken: list[bytes] = []
    for _, data, item in _lines(path, model):
        if item is None:
            broken.append(data)
        else:
            winning[key_of(item)] = data
    data = b"".join(line + b"\n" for line in [*(line for line in winning.values() if line), *broken])
    try:
        if data != path.read_bytes():
            replace_file(path, data, sync=True)
    except OSError as error:
        raise machine_error(path, error) from error


def write_scorecard(bundle: Path, view: BundleView, created: datetime) -> Path:
    """scorecard.md from what is in the bundle, in the pack's language. Raises MachineError."""
    words = Words("en" if view.pack is None else view.pack.language)
    path = bundle / "scorecard.md"
    save(path, render_scorecard_md(view, words, created))
    return path


def master_events(view: BundleView, ts: float) -> Iterator[Master]:
    """One event a cell, in the scorecard's order."""
    for row in view.rows:
        yield Master(
            ts=ts,
            model=row.cell.model,
            variant=row.cell.variant,
            pct=row.weighted.pct,
            safety_passed=row.safety.passed,
            safety_reason=row.safety.reason,
            recommendation=row.recommendation,
        )
