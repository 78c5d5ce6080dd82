"""An eval run on disk: makes the bundle, appends every answer, goes on where an earlier run stopped."""

from __future__ import annotations

import asyncio
import platform
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from touchstone import __version__
from touchstone.chat.http import Endpoint
from touchstone.contracts.config import EvalConfig
from touchstone.contracts.lines import Answer, Key
from touchstone.contracts.manifest import Manifest, parse_manifest
from touchstone.contracts.pack import Pack, pack_sha, parse_pack
from touchstone.errors import BundleError, EndpointError, InputError, Issue
from touchstone.events import EvalDone, EvalStart, answer_event
from touchstone.jsonsource import Refused, explain, parse_model
from touchstone.runner import Evaluation, Params, Task, tasks
from touchstone.store.bundles import read_document
from touchstone.store.lines import LogTail
from touchstone.store.lock import exclusive
from touchstone.store.write import JsonlWriter, machine_error, replace_file, retry_locked


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
    answer: Callable[[Answer], None] = lambda answer: None


def evaluate(request: Request, progress: Progress | None = None) -> Outcome:
    """Ask everything that is left. Raises TouchstoneError; KeyboardInterrupt passes after everything is closed."""
    progress = progress or Progress()
    if request.resume is not None and not request.resume.is_dir():
        raise BundleError(f"{request.resume}: no such folder; name the bundle that was interrupted")
    bundle = request.resume if request.resume is not None else _create(request)
    try:
        with exclusive(bundle, "eval"):
            outcome = asyncio.run(_Run(request, bundle, progress).run())
        if outcome.refusals and not outcome.answers:
            raise EndpointError("\n".join(dict.fromkeys(outcome.refusals)))
    except EndpointError:
        # Nobody could be asked anything: a new run without an answer would only be in the way.
        if request.resume is None and not _has_answers(bundle):
            shutil.rmtree(bundle, ignore_errors=True)
        raise
    return outcome


def _has_answers(bundle: Path) -> bool:
    log = bundle / "answers.jsonl"
    return log.is_file() and log.stat().st_size > 0


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
        "host": _host(),
        "peak_ram_bytes": None,
        "derived_from": None,
    }


def _host() -> dict[str, Any]:
    import psutil

    return {
        "os": _system(),
        "cpu": _cpu(),
        "ram_bytes": psutil.virtual_memory().total,
        "gpu": None,
    }


def _system() -> str | None:
    """Name and version, without the build suffixes that say nothing to anybody."""
    version = re.match(r"\d+(\.\d+)?", platform.release())
    return " ".join(filter(None, (platform.system(), version and version[0]))) or None


def _cpu() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip() or None
    except OSError:
        pass
    return platform.processor() or platform.machine() or None


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
    statuses: dict[Key, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    lines: int = 0

    async def run(self) -> Outcome:
        pack, manifest = self._what()
        all_tasks = self._tasks(pack, manifest)
        left = self._left(all_tasks)
        self.progress.started(self.bundle, len(all_tasks), len(left))
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
                async with Endpoint(
                    self.request.endpoint,
                    api_key=self.request.api_key,
                    timeout_s=self.request.config.timeout_s,
                    on_note=self.progress.note,
                ) as endpoint:
                    await endpoint.greet()
                    unasked = await Evaluation(
                        ask=endpoint.ask,
                        clock=time.time,
                        params=_params(manifest, self.request.config),
                        on_answer=self._on_answer,
                        on_refusal=self._on_refusal,
                    ).run(left)
        finally:
            if self.events is not None:
                self.events.append(EvalDone(ts=time.time(), total=len(all_tasks), answered=len(self.statuses)))
        return unasked

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
