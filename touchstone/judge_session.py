"""A judge run on disk: finds out what is left, holds the bundle, appends every result, ends cleanly.

`judge` knows what to ask and what to make of the replies; this is the shell around it. Whatever ends a run (Ctrl-C,
a dead endpoint, `kill -9`), what was judged is in judgements.jsonl, and the next run goes on from there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import yaml

from touchstone import yamlsource
from touchstone.bundle import open_bundle
from touchstone.chat.pool import Pool
from touchstone.chat.stop import Stopped, StopSign
from touchstone.chat.wire import ChatRequest, Reply
from touchstone.contracts.config import JudgeConfig
from touchstone.contracts.lines import Answer, Cell, Key, RepeatedVerdict, Report, Verdict
from touchstone.contracts.pack import Pack, parse_pack
from touchstone.errors import BundleError, MachineError
from touchstone.i18n import Words
from touchstone.interrupt import run_stoppable
from touchstone.jsonsource import Refused, parse_model
from touchstone.judge import Callbacks, Judging, Numbered, Plan, plan, refuse_other_judge, stands
from touchstone.judge_estimate import Estimate, estimate
from touchstone.judge_events import JudgeDone, JudgeStart, Master, verdict_event
from touchstone.judge_prompts import Templates
from touchstone.judge_questions import Questions
from touchstone.report_md import render_scorecard_md
from touchstone.resources import prompt_template
from touchstone.self_consistency import Consistency, summary
from touchstone.shards import Shard, sample
from touchstone.slugs import is_plain
from touchstone.store.bundles import is_bundle, read_document
from touchstone.store.commit import GroupCommit
from touchstone.store.lines import LogTail
from touchstone.store.lock import exclusive
from touchstone.store.write import JsonlWriter, machine_error, replace_file, retry_locked, save
from touchstone.view import BundleView

M = TypeVar("M", Answer, Verdict, RepeatedVerdict, Report)

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
    endpoints: tuple[str, ...]
    """At least one; all with the same model."""
    api_key: str | None = None
    prompt: Path | None = None
    """The user's own verdict template."""
    into: str | None = None
    restart: bool = False
    events: bool = False
    """Write judge_events.jsonl too."""
    shard: Shard | None = None
    """Judge only these answers, and write verdicts only."""
    rounds: int = 0
    """How often a sample is judged again, into self_consistency.jsonl; 0: not at all."""
    sample: int = 0
    """How many answers that sample has."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    bundle: Path
    view: BundleView
    asked: int
    """Fresh verdicts of this run."""
    consistency: Consistency | None = None
    """What the repeated verdicts say, if this run was asked for some."""


@dataclass
class Progress:
    """Told as the run goes on; all default to silence."""

    note: Callable[[str], None] = lambda text: None
    started: Callable[[Path, Plan], None] = lambda bundle, plan: None
    verdict: Callable[[Verdict], None] = lambda verdict: None
    report: Callable[[Report], None] = lambda report: None
    repeated: Callable[[RepeatedVerdict], None] = lambda verdict: None


OnStart = Callable[[int, Sequence[Verdict]], None]
OnVerdict = Callable[[Verdict], None]


@dataclass
class _Bundle:
    """What is in the bundle before the run."""

    pack: Pack
    answers: list[Numbered]
    verdicts: dict[Key, Verdict]
    reports: dict[Cell, Report]
    repeats: dict[tuple[Key, int], RepeatedVerdict]

    def without_judging(self) -> _Bundle:
        return _Bundle(self.pack, self.answers, {}, {}, {})

    def refuse_other_judge(self, request: Request, sha: str, name: str) -> None:
        verdicts = (*self.verdicts.values(), *self.repeats.values())
        refuse_other_judge(verdicts, self.reports.values(), request.model, sha, name)

    def plan(self, shard: Shard | None) -> Plan:
        """What is left to do."""
        if shard is None:
            return plan(self.answers, self.verdicts, self.reports, self.pack)
        mine = [item for item in self.answers if shard.holds(item.answer.key)]
        return plan(mine, self.verdicts, {}, self.pack, reports_wanted=False)

    def rounds(self, request: Request) -> list[tuple[Numbered, int]]:
        """What is left of the repeats: the first round of the whole sample, then the second …"""
        winning = {item.answer.key: item for item in self.answers}
        chosen = sample((key for key, item in winning.items() if item.answer.judgeable), request.sample)
        return [
            (item, number)
            for number in range(1, request.rounds + 1)
            for key, item in winning.items()
            if key in chosen and not stands(self.repeats.get((key, number)), item.answer)
        ]


def judge_bundle(
    request: Request,
    progress: Progress | None = None,
    *,
    on_judge_start: OnStart | None = None,
    on_verdict: OnVerdict | None = None,
) -> Outcome:
    """Judge what is left of a bundle.

    `on_judge_start` gets the number of answers to be judged and the verdicts that stand already, before the endpoint
    is asked anything; `on_verdict` each fresh verdict, once it is on disk.
    Raises TouchstoneError; KeyboardInterrupt after everything is closed.
    """

    async def judge(sign: StopSign) -> Outcome:
        return await _judge(request, progress or Progress(), on_judge_start, on_verdict, sign)

    return run_stoppable(judge)


async def _judge(
    request: Request, progress: Progress, on_start: OnStart | None, on_verdict: OnVerdict | None, sign: StopSign
) -> Outcome:
    templates = _templates(request)
    bundle, fresh = _target(request, progress)
    with exclusive(bundle, "judge", new_log=bundle / "judgements.jsonl" if fresh else None):
        if request.restart:
            _set_aside(bundle, progress)
        content = _read(bundle)
        content.refuse_other_judge(request, templates.sha, str(bundle))
        todo = content.plan(request.shard)
        progress.started(bundle, todo)
        run = _Run(request, bundle, content, templates, todo, progress, sign, on_start, on_verdict)
        await run.run()
        return Outcome(bundle, run.state.refresh(), run.asked, run.consistency)


def estimate_bundle(request: Request) -> Estimate:
    """What `judge_bundle` would ask. Nothing is written, nobody is called. Raises TouchstoneError as it would."""
    templates = _templates(request)
    bundle = request.bundle if request.into is None else _sibling(request.bundle, request.into)
    derived = bundle.exists()
    content = _read(bundle if derived else request.bundle)
    earlier = [
        verdict
        for verdict in content.verdicts.values()
        if verdict.judge_model == request.model and verdict.mode is not None
    ]
    if request.restart or not derived:
        content = content.without_judging()
    content.refuse_other_judge(request, templates.sha, str(bundle))
    return estimate(
        Questions(content.pack, request.config, request.model, templates),
        content.plan(request.shard),
        [item for item, _ in content.rounds(request)],
        earlier,
    )


def _templates(request: Request) -> Templates:
    language = request.config.language or _pack_of(request.bundle).language
    verdict = prompt_template("verdict", language)
    if request.prompt is not None:
        try:
            verdict = request.prompt.read_text(encoding="utf-8")
        except OSError as error:
            why = error.strerror or str(error)
            raise BundleError(f"{request.prompt}: {why}; correct prompt: in the config of the judge") from None
        except UnicodeDecodeError:
            raise BundleError(f"{request.prompt}: not UTF-8; save the judge prompt as UTF-8") from None
    report, brief = prompt_template("report", language), prompt_template("brief", language)
    return Templates(verdict, report, str(request.prompt or f"verdict.{language}.md"), brief)


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


def _target(request: Request, progress: Progress) -> tuple[Path, bool]:
    """The bundle to be judged, and whether it was made just now."""
    if request.into is None:
        return request.bundle, False
    target = _sibling(request.bundle, request.into)
    if target.exists():
        progress.note(f"{target}: is there already; going on with it")
        return target, False
    _derive(request.bundle, target)
    return target, True


def _sibling(bundle: Path, name: str) -> Path:
    """The folder that `--into` means, there already or not. Raises BundleError where it cannot be that."""
    if not is_plain(name) or name.endswith(".old"):
        raise BundleError(f"--into {name}: must be a plain folder name; it is made beside {bundle}")
    target = bundle.resolve().parent / name
    if target == bundle.resolve():
        raise BundleError(f"--into {name}: is the bundle itself; choose another name")
    if target.exists() and (not is_bundle(target) or _derived_from(target) != bundle.resolve().name):
        raise BundleError(f"{target}: is there already and was not made from {bundle}; choose another name")
    return target


def _derived_from(bundle: Path) -> str | None:
    manifest = open_bundle(bundle).whole().manifest
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
    repeated = _lines(bundle / "self_consistency.jsonl", RepeatedVerdict)
    repeats = {(item.key, item.round): item for _, _, item in repeated if item is not None}
    return _Bundle(_pack_of(bundle), answers, verdicts, reports, repeats)


# -- the run


class _Channel:
    """judge_events.jsonl: what happens, for whoever follows the run."""

    def __init__(self, log: JsonlWriter, judge_model: str, plan: Plan, clock: Callable[[], float]) -> None:
        self._log = log
        self._judge_model = judge_model
        self._positions = {item.answer.key: item.i for item in plan.answers}
        self._total = plan.total
        self._clock = clock
        self._scored = 0

    def on_judge_start(self, total: int, prior: Sequence[Verdict]) -> None:
        self._log.append(JudgeStart(ts=self._clock(), total=total, judge_model=self._judge_model))
        for verdict in prior:
            self._scored += not verdict.unscored
            event = verdict_event(verdict, prior=True)
            self._log.append(event.model_copy(update={"i": self._positions.get(verdict.key, verdict.i)}))

    def on_verdict(self, verdict: Verdict) -> None:
        self._scored += not verdict.unscored
        self._log.append(verdict_event(verdict, prior=False))

    def masters(self, view: BundleView) -> None:
        now = self._clock()
        for event in master_events(view, now):
            self._log.append(event)

    def done(self) -> None:
        self._log.append(JudgeDone(ts=self._clock(), total=self._total, scored=self._scored))


@dataclass
class _Run:
    request: Request
    bundle: Path
    content: _Bundle
    templates: Templates
    plan: Plan
    progress: Progress
    sign: StopSign
    on_start: OnStart | None
    on_verdict: OnVerdict | None
    clock: Callable[[], float] = time.time
    asked: int = 0
    under_way: int = 0
    """Calls at the moment."""
    consistency: Consistency | None = None
    files: ExitStack = field(default_factory=ExitStack)
    net: AsyncExitStack = field(default_factory=AsyncExitStack)
    judging: Judging | None = None

    def __post_init__(self) -> None:
        self.state = open_bundle(self.bundle)
        self.slots = self.request.config.concurrency * len(self.request.endpoints)

    async def run(self) -> None:
        """All of it. What is left undone because of the sign is no error: the caller knows of it."""
        self.sign.then(self._stopping)
        with suppress(Stopped):
            async with self.net:
                await self._judge()
                await self._repeat()

    def _stopping(self) -> None:
        calls = f"{self.under_way} calls" if self.under_way != 1 else "1 call"
        wait = f"waiting for {calls} under way" if self.under_way else "nothing is under way"
        self.progress.note(f"stopping: {wait}; Ctrl-C once more stops at once")

    def _writer(self, name: str, *, sync: bool, cut_half: bool) -> JsonlWriter:
        return self.files.enter_context(JsonlWriter(self.bundle / name, sync=sync, cut_half=cut_half))

    async def _judge(self) -> None:
        with self.files:
            self.judgements = self._writer("judgements.jsonl", sync=True, cut_half=True)
            self.verdicts = GroupCommit(self.judgements, self.slots)
            self.reports = None if self.request.shard else self._writer("reports.jsonl", sync=True, cut_half=True)
            self.channel = None
            if self.request.events:
                log = self._writer("judge_events.jsonl", sync=False, cut_half=False)
                self.channel = _Channel(log, self.request.model, self.plan, self.clock)
            try:
                self._on_start()
                if self.plan.todo or self.plan.report_todo:
                    await (await self._judge_of()).run(self.plan)
                self._tidy()
                if self.request.shard is None:
                    self._conclude()
            except BaseException:
                # What went wrong is what is told; a disk that is full is full for this line too.
                with suppress(MachineError):
                    self._end()
                raise
            self._end()

    def _end(self) -> None:
        if self.channel is not None:
            self.channel.done()

    async def _judge_of(self) -> Judging:
        """The judge, once its endpoint is known to answer. Raises EndpointError."""
        if self.judging is not None:
            return self.judging
        request = self.request
        pool = Pool(
            request.endpoints,
            slots=request.config.concurrency,
            api_key=request.api_key,
            timeout_s=request.config.timeout_s,
            on_note=self.progress.note,
            sign=self.sign,
        )
        await self.net.enter_async_context(pool)
        await self.sign.unless_set(pool.greet())

        async def ask(question: ChatRequest) -> Reply:
            self.under_way += 1
            try:
                return await pool.ask(question)
            finally:
                self.under_way -= 1

        self.judging = Judging(
            questions=Questions(self.content.pack, request.config, request.model, self.templates),
            ask=ask,
            clock=self.clock,
            context_tokens=await self.sign.unless_set(pool.context_tokens(request.model)),
            callbacks=Callbacks(self._on_verdict, self._on_report, self._on_repeat),
            slots=pool.slots,
            sign=self.sign,
        )
        return self.judging

    # First of all, also where the endpoint turns out to be dead: a channel has no end without its beginning.
    def _on_start(self) -> None:
        prior = self.plan.standing
        if self.channel is not None:
            self.channel.on_judge_start(self.plan.total, prior)
        if self.on_start is not None:
            self.on_start(self.plan.total, prior)

    async def _on_verdict(self, verdict: Verdict) -> None:
        await self.verdicts.append(verdict)
        self.asked += 1
        if self.channel is not None:
            self.channel.on_verdict(verdict)
        if self.on_verdict is not None:
            self.on_verdict(verdict)
        self.progress.verdict(verdict)

    async def _on_report(self, report: Report) -> None:
        assert self.reports is not None, "a shard has no reports to do"
        self.reports.append(report)
        self.progress.report(report)

    async def _on_repeat(self, verdict: RepeatedVerdict) -> None:
        await self.repeats.append(verdict)
        self.progress.repeated(verdict)

    def _tidy(self) -> None:
        """One line a key, in the order of answers.jsonl; what nobody could read stays, last."""
        keys = list(dict.fromkeys(item.answer.key for item in self.content.answers))
        self.judgements.close()
        _rewrite(self.bundle / "judgements.jsonl", Verdict, lambda verdict: verdict.key, keys)
        if self.reports is not None:
            self.reports.close()
            _rewrite(self.bundle / "reports.jsonl", Report, lambda report: report.cell, list(self.plan.cells))

    def _conclude(self) -> None:
        """Scorecard and master events, computed here, where the pack is."""
        view = self.state.whole()
        write_scorecard(self.bundle, view, datetime.fromtimestamp(self.clock(), UTC))
        if self.channel is not None:
            self.channel.masters(view)

    async def _repeat(self) -> None:
        """The sample once more, into a file of its own: the judging itself is complete by now."""
        if not self.request.rounds:
            return
        path = self.bundle / "self_consistency.jsonl"
        rounds = self.content.rounds(self.request)
        if rounds:
            self.progress.note(f"judging again for self-consistency: {len(rounds)} calls")
            with JsonlWriter(path, sync=True, cut_half=True) as log:
                self.repeats = GroupCommit(log, self.slots)
                await (await self._judge_of()).repeat(rounds)
        if path.is_file():
            keys = dict.fromkeys(item.answer.key for item in self.content.answers)
            order = [(key, number) for key in keys for number in range(1, self.request.rounds + 1)]
            _rewrite(path, RepeatedVerdict, lambda verdict: (verdict.key, verdict.round), order)
        self.consistency = summary(item for _, _, item in _lines(path, RepeatedVerdict) if item is not None)


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
