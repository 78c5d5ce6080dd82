"""An eval run on disk: makes the bundle, appends every answer, goes on where an earlier run stopped."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from touchstone import __version__
from touchstone.chat.address import parse_address
from touchstone.chat.http import Endpoint
from touchstone.chat.stop import StopSign
from touchstone.contracts.config import EvalConfig
from touchstone.contracts.lines import Answer, Key
from touchstone.contracts.manifest import Manifest, parse_manifest
from touchstone.contracts.pack import Pack, pack_sha, parse_pack
from touchstone.errors import BundleError, EndpointError, InputError, Issue
from touchstone.events import EvalDone, EvalStart, answer_event
from touchstone.interrupt import run_stoppable
from touchstone.jsonsource import Refused, explain, parse_model
from touchstone.load import LoadFold, read_resources
from touchstone.runner import Evaluation, Params, Task, tasks
from touchstone.sampling.host import describe, is_here
from touchstone.sampling.parent import Sampler
from touchstone.store.bundles import read_document
from touchstone.store.lines import LogTail
from touchstone.store.lock import exclusive
from touchstone.store.write import JsonlWriter, machine_error, replace_file, retry_locked, sync_folder

STOPPING: Final = "stopping after the answer that is under way; Ctrl-C once more stops at once"


@dataclass(frozen=True)
class Request:
    """What `touchstone eval` was asked for."""

    config: EvalConfig
    endpoint: str
    runs: Path
    pack: Path | None = None
    resume: Path | None = None
    """An earlier bundle to go on with; pack, models and parameters are then the bundle's own."""
    api_key: str | None = None
    events: bool = False
    """Write events.jsonl and resources.jsonl too."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    bundle: Path
    total: int
    answers: dict[str, int]
    """Status to count, over all answers of the bundle."""
    unasked: int
    refusals: tuple[str, ...]
    """Why a model could not be asked at all, a line each."""


@dataclass
class Progress:
    """Told as the run goes on; all default to silence."""

    note: Callable[[str], None] = lambda text: None
    started: Callable[[Path, int, int], None] = lambda bundle, total, left: None
    model: Callable[[str, int], None] = lambda model, questions: None
    """A model is warmed up, and gets so many questions then."""
    answer: Callable[[Answer], None] = lambda answer: None


def evaluate(request: Request, progress: Progress | None = None) -> Outcome:
    """Ask everything that is left. Raises TouchstoneError; KeyboardInterrupt passes after everything is closed."""
    progress = progress or Progress()
    if request.resume is not None and not request.resume.is_dir():
        raise BundleError(f"{request.resume}: no such folder; name the bundle that was interrupted")
    bundle = request.resume if request.resume is not None else _create(request)
    with exclusive(bundle, "eval", new_log=None if request.resume is not None else bundle / "answers.jsonl"):
        outcome = run_stoppable(lambda stop: _Run(request, bundle, progress, stop).run())
        if outcome.refusals and not outcome.answers:
            raise EndpointError("\n".join(dict.fromkeys(outcome.refusals)))
    return outcome


# -- a new bundle


def _create(request: Request) -> Path:
    assert request.pack is not None
    data = read_document(request.pack)
    if data is None:
        raise InputError([Issue(str(request.pack), None, "no such file")])
    pack = parse_pack(data, str(request.pack))
    variants = _variants(request.config.variants, pack, str(request.pack))
    fields = _manifest(request, pack, pack_sha(data), variants)
    try:
        return _publish(request.runs, pack.id, data, fields)
    except OSError as error:
        raise machine_error(request.runs, error) from error


def _variants(wanted: Sequence[str] | None, pack: Pack, source: str) -> list[str]:
    known = [variant.id for variant in pack.variants]
    unknown = [name for name in wanted or () if name not in known]
    if unknown:
        raise InputError([Issue(source, None, f"has no variant {', '.join(unknown)}; it has {', '.join(known)}")])
    return known if wanted is None else list(dict.fromkeys(wanted))


def _manifest(request: Request, pack: Pack, sha: str, variants: list[str]) -> dict[str, Any]:
    config = request.config
    return {
        "schema": 1,
        "created": datetime.now(UTC).replace(microsecond=0),
        "touchstone": __version__,
        "pack": {"id": pack.id, "sha256": sha},
        "models": list(dict.fromkeys(config.models)),
        "variants": variants,
        "repeats": config.repeats,
        "params": {
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "seed": config.seed,
            "timeout_s": config.timeout_s,
            **({"extra": config.extra} if config.extra else {}),
        },
        "endpoint": Endpoint(request.endpoint).safe_url,
        "host": describe() if _measurable(request.endpoint) else None,
        "peak_ram_bytes": None,
        "derived_from": None,
    }


def _measurable(endpoint: str) -> bool:
    """Whether the models run on this machine: of another one neither the load nor the make is known."""
    return is_here(parse_address(endpoint).host)


def _publish(runs: Path, pack_id: str, pack: bytes, fields: dict[str, Any]) -> Path:
    """The bundle's folder with pack and manifest in it: complete, or not there at all."""
    text = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False)
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        name = f"{time.strftime('%Y-%m-%d_%H%M%S', time.gmtime())}_eval_{pack_id}"
        beside, target = runs / f".{name}.tmp", runs / name
        try:
            beside.mkdir()
        except FileExistsError:
            time.sleep(0.2)
            continue
        try:
            replace_file(beside / "pack.yaml", pack, sync=True)
            replace_file(beside / "bundle.yaml", text.encode("utf-8"), sync=True)
            if not target.exists():
                retry_locked(lambda: beside.rename(target))  # noqa: B023 - called at once
                sync_folder(runs)
                return target
        finally:
            _discard(beside)
        time.sleep(0.2)


def _discard(folder: Path) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


# -- the run


@dataclass
class _Run:
    request: Request
    bundle: Path
    progress: Progress
    stop: StopSign
    statuses: dict[Key, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    lines: int = 0

    async def run(self) -> Outcome:
        pack, manifest = self._what()
        all_tasks = self._tasks(pack, manifest)
        left = self._left(all_tasks)
        self.progress.started(self.bundle, len(all_tasks), len(left))
        self.stop.then(lambda: self.progress.note(STOPPING))
        with ExitStack() as files:
            self.answers = files.enter_context(JsonlWriter(self.bundle / "answers.jsonl", sync=True, cut_half=True))
            self.events = (
                files.enter_context(JsonlWriter(self.bundle / "events.jsonl", sync=False, cut_half=False))
                if self.request.events
                else None
            )
            unasked = await self._ask(manifest, all_tasks, left)
        counts: dict[str, int] = {}
        for status in self.statuses.values():
            counts[status] = counts.get(status, 0) + 1
        return Outcome(self.bundle, len(all_tasks), counts, unasked, tuple(self.refusals))

    def _what(self) -> tuple[Pack, Manifest]:
        pack, manifest = (read_document(self.bundle / name) for name in ("pack.yaml", "bundle.yaml"))
        if pack is None or manifest is None:
            raise BundleError(f"{self.bundle}: has no pack.yaml or no bundle.yaml, so it cannot be resumed")
        return (
            parse_pack(pack, str(self.bundle / "pack.yaml")),
            parse_manifest(manifest, str(self.bundle / "bundle.yaml")),
        )

    def _tasks(self, pack: Pack, manifest: Manifest) -> list[Task]:
        return list(tasks(pack, manifest.models, manifest.variants, manifest.repeats or 1))

    def _left(self, all_tasks: list[Task]) -> list[Task]:
        """Questions without an answer; those that failed are asked again."""
        for line in LogTail(self.bundle / "answers.jsonl").read():
            self.lines += 1
            try:
                answer = parse_model(Answer, line.data or b"")
            except Refused:
                continue
            self.statuses[answer.key] = answer.status or "ok"
        return [task for task in all_tasks if self.statuses.get(task.key, "error") == "error"]

    async def _ask(self, manifest: Manifest, all_tasks: list[Task], left: list[Task]) -> int:
        self._emit_start(manifest, len(all_tasks))
        unasked = len(left)
        try:
            if left:
                unasked = await self._watched(manifest, left)
        finally:
            if self.events is not None:
                self.events.append(EvalDone(ts=time.time(), total=len(all_tasks), answered=len(self.statuses)))
        return unasked

    async def _watched(self, manifest: Manifest, left: list[Task]) -> int:
        """Asks while the machine's load is sampled, and notes its peak in the end."""
        if not _measurable(self.request.endpoint):
            if self.request.events:
                self.progress.note("the models run on another machine, so this one's load is not recorded")
            return await self._questions(manifest, left)
        sampler = Sampler(self.bundle / "resources.jsonl" if self.request.events else None, self.progress.note)
        try:
            with sampler:
                return await self._questions(manifest, left)
        finally:
            note_peak(self.bundle, sampler.peak, self.progress.note)

    async def _questions(self, manifest: Manifest, left: list[Task]) -> int:
        async with Endpoint(
            self.request.endpoint,
            api_key=self.request.api_key,
            timeout_s=self.request.config.timeout_s,
            on_note=self.progress.note,
            sleep=self.stop.sleep,
        ) as endpoint:
            await endpoint.greet()
            return await Evaluation(
                ask=endpoint.ask,
                clock=time.time,
                timer=time.monotonic,
                params=_params(manifest, self.request.config),
                on_answer=self._on_answer,
                on_model=self.progress.model,
                on_refusal=self._on_refusal,
                stopping=lambda: bool(self.stop),
            ).run(left)

    def _emit_start(self, manifest: Manifest, total: int) -> None:
        if self.events is not None:
            self.events.append(
                EvalStart(ts=time.time(), total=total, models=manifest.models, variants=manifest.variants)
            )

    def _on_answer(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.statuses[answer.key] = answer.status or "ok"
        if self.events is not None:
            self.events.append(answer_event(answer, self.lines, prior=False))
        self.lines += 1
        self.progress.answer(answer)

    def _on_refusal(self, model: str, error: EndpointError) -> None:
        self.refusals.append(str(error))
        self.progress.note(str(error))


def _params(manifest: Manifest, config: EvalConfig) -> Params:
    """The bundle's own parameters: answers of one bundle are asked alike, also by a later run."""
    stored = manifest.params or {}
    merged = config.model_copy(
        update={name: stored[name] for name in ("temperature", "max_tokens", "seed", "extra") if name in stored}
    )
    try:
        checked = EvalConfig.model_validate(merged.model_dump())
    except ValidationError as error:
        raise BundleError(f"bundle.yaml: params cannot be used: {explain(error)}") from None
    return Params(checked.temperature, checked.max_tokens, checked.seed, checked.extra)


# -- the peak


def note_peak(bundle: Path, peak: int | None, note: Callable[[str], None]) -> None:
    """Writes the most memory used into bundle.yaml, in any of the bundle's runs; its other lines stay as they are."""
    path = bundle / "bundle.yaml"
    try:
        data = read_document(path)
        if data is None:
            return
        manifest = parse_manifest(data, str(path))
        most = max(filter(None, (peak, manifest.peak_ram_bytes, _recorded_peak(bundle))), default=None)
        if most is None or most == manifest.peak_ram_bytes:
            return
        text, line = data.decode("utf-8"), f"peak_ram_bytes: {most}"
        changed, found = re.subn(r"^peak_ram_bytes:.*$", line, text, flags=re.M)
        changed = changed if found else f"{text.rstrip()}\n{line}\n"
        if parse_manifest(changed, str(path)) == manifest.model_copy(update={"peak_ram_bytes": most}):
            replace_file(path, changed.encode("utf-8"), sync=True)
    except (OSError, UnicodeDecodeError, InputError) as error:
        # It is one figure; the answers are safe.
        why = machine_error(path, error) if isinstance(error, OSError) else error
        note(f"the peak of memory could not be noted: {why}")


def _recorded_peak(bundle: Path) -> int | None:
    """What resources.jsonl says of runs that were killed before they could note it."""
    load = LoadFold()
    for line in LogTail(bundle / "resources.jsonl").read():
        try:
            load.add(read_resources(line.data or b""))
        except Refused:
            continue
    return None if load.peak is None else int(load.peak)
