"""A bundle on disk as a view: reads each log only from where it was left, and adds the new lines to the folds.

This is the shell between `store` (how files behave) and `view` (what they add up to): it knows which file feeds which
fold, and keeps count of what could not be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from touchstone import events, judge_events
from touchstone.contracts.lines import Answer, Cell, Keyed, RepeatedVerdict, Report, Verdict
from touchstone.contracts.manifest import Manifest, parse_manifest
from touchstone.contracts.pack import Pack, pack_sha, parse_pack
from touchstone.errors import InputError, Issue, MachineError
from touchstone.jsonsource import MAX_LINE_BYTES, Refused, parse_model
from touchstone.judge_compare import TYPE, parse_frontmatter
from touchstone.judge_events import JudgeFold, VerdictEvent
from touchstone.keys import KeyIndex
from touchstone.load import LoadFold, read_resources
from touchstone.self_consistency import summary
from touchstone.store.bundles import LOGS, Found, read_document
from touchstone.store.lines import Line, LogTail, read_many
from touchstone.store.write import machine_error
from touchstone.view import BundleView, Problems

KEPT_TEXTS: Final = 1024

K = TypeVar("K", bound=Keyed)
Feed = Callable[[bytes, Line, int], None]
"""Takes a line's bytes, where it stood, and 64 bits that stand for its content."""


class BundleState:
    """One bundle, followed. `refresh` reads what is new, `view` says what it adds up to."""

    def __init__(self, found: Found, omit: Collection[str] = ()) -> None:
        """`omit`: names of logs that are not read, as if they were not there."""
        self.found = found
        self._documents: list[bytes | None] = []
        self._unread: list[str] = []
        self._failures: list[MachineError] = []
        self._strict = False
        self.path = found.path
        self._tails = {name: LogTail(self.path / name) for name in LOGS if name not in (*found.links, *omit)}
        self._rewinds = 0
        self._restart()

    def _restart(self) -> None:
        self._keys = KeyIndex()
        self._eval = events.EvalFold(self._keys)
        self._judge = JudgeFold(self._keys)
        self._load = LoadFold()
        self._reports: dict[Cell, Report] = {}
        self._repeated: list[RepeatedVerdict] = []
        self._problems: dict[str, Problems] = {}
        self._texts: dict[int, tuple[int, Verdict | VerdictEvent]] = {}
        """The verdicts that were read last, by number, with what stands for their lines: several pages show each."""
        self._made_rows: dict[Cell, Any] = {}
        self._sums: dict[str, int] = {}
        """Log to what its lines, in their order, add up to."""
        for name, tail in self._tails.items():
            self._tails[name] = LogTail(tail.path)

    def glance(self) -> BundleView:
        """What the small files say, before any log is read. Raises OSError if the folder cannot be read."""
        return self._view(touched=None)

    def refresh(self) -> BundleView:
        """Reads what came since the last call. Raises OSError if the folder cannot be read."""
        self._failures = []
        self._forget_replaced()
        feeds: dict[str, Feed] = {
            "answers.jsonl": self._feed_answer,
            "judgements.jsonl": self._feed_judgement,
            "judge_events.jsonl": self._feed_judge_event,
            "reports.jsonl": self._feed_report,
            "events.jsonl": self._feed_eval_event,
            "resources.jsonl": self._feed_resources,
            "self_consistency.jsonl": self._feed_repeated,
        }
        self._unread = []
        for name, tail in self._tails.items():
            if not _ordinary(tail.path):
                self._unread.append(f"{name} is not an ordinary file and was not read")
                continue
            try:
                for line in tail.read():
                    self._feed(name, line, feeds[name])
            except OSError as error:
                self._unread.append(f"{name} could not be read: {error.strerror or error}")
                self._failures.append(machine_error(tail.path, error))
        return self._view(self._keys.take_touched())

    def whole(self) -> BundleView:
        """As `refresh`, for whoever writes down what it adds up to.

        Raises MachineError if anything could not be read, as do the texts that are read later.
        """
        try:
            view = self.refresh()
        except OSError as error:
            raise machine_error(self.path, error) from error
        for failure in self._failures:
            raise failure
        self._strict = True
        return view

    @property
    def settled(self) -> bool:
        """Whether everything could be read since `refresh` began, texts included: else there may be more to show."""
        return not self._failures

    def _forget_replaced(self) -> None:
        """A log that shrank or is another now: everything is read afresh, as keys and slots may have come from it."""
        if any(tail.replaced() for tail in self._tails.values()):
            self._rewinds += 1
            self._restart()

    def _feed(self, name: str, line: Line, feed: Feed) -> None:
        try:
            if line.data is None:
                raise Refused(f"longer than {MAX_LINE_BYTES} bytes")
            if not line.data.strip():
                raise Refused("empty line")
            digest = _digest(line.data)
            self._sums[name] = hash((self._sums.get(name, 0), digest))
            feed(line.data, line, digest)
        except Refused as error:
            self._problems.setdefault(name, Problems()).add(line.index + 1, str(error))
            if name == "answers.jsonl":
                self._keys.skipped(line.index)

    def _feed_answer(self, data: bytes, line: Line, digest: int) -> None:
        self._eval.add_answer(parse_model(Answer, data), line.index, line.offset, digest)

    def _feed_judgement(self, data: bytes, line: Line, digest: int) -> None:
        self._judge.add_judgement(parse_model(Verdict, data), line.offset, digest)

    def _feed_judge_event(self, data: bytes, line: Line, digest: int) -> None:
        self._judge.add(judge_events.read_event(data), line.offset, digest)

    def _feed_report(self, data: bytes, line: Line, digest: int) -> None:
        report = parse_model(Report, data)
        self._reports[report.cell] = report

    def _feed_eval_event(self, data: bytes, line: Line, digest: int) -> None:
        self._eval.add(events.read_event(data))

    def _feed_resources(self, data: bytes, line: Line, digest: int) -> None:
        self._load.add(read_resources(data))

    def _feed_repeated(self, data: bytes, line: Line, digest: int) -> None:
        verdict = parse_model(RepeatedVerdict, data)
        self._repeated.append(verdict.model_copy(update={"rationale": None, "raw": None}))

    # -- documents: small, read whole each time

    def _view(self, touched: frozenset[int] | None) -> BundleView:
        self._documents = []
        notes = [f"{name} is a symbolic link and was not read" for name in self.found.links]
        notes.extend(self._unread)
        problems = dict(self._problems)
        manifest = self._manifest(notes, problems)
        pack, sha = self._pack(notes, problems)
        declared = None if manifest is None or manifest.pack is None else manifest.pack.sha256
        if sha and declared and sha != declared:
            notes.append("pack.yaml is not the one that bundle.yaml names (another sha256); shown with the one here")
        quality_md, scorecard_md = self._text("judge_quality.md", notes), self._text("scorecard.md", notes)
        fields = None if quality_md is None else parse_frontmatter(quality_md)
        if quality_md is not None and (fields is None or fields.get("type") != TYPE):
            notes.append("judge_quality.md has no readable frontmatter of that type; it takes no part in comparisons")
        return BundleView(
            name=self.found.name,
            manifest=manifest,
            pack=pack,
            pack_sha=sha or declared,
            keys=self._keys,
            eval=self._eval,
            judge=self._judge,
            load=self._load,
            reports=dict(self._reports),
            consistency=summary(self._repeated),
            problems=problems,
            notes=tuple(notes),
            quality_md=quality_md,
            scorecard_md=scorecard_md,
            source=self,
            revision=self._revision(),
            documents=self._documents_sha(),
            touched=touched,
            made_rows=self._made_rows,
        )

    def _manifest(self, notes: list[str], problems: dict[str, Problems]) -> Manifest | None:
        data = self._document("bundle.yaml", notes)
        if data is None:
            notes.append("no bundle.yaml; shown from what is there")
            return None
        manifest, issues = _parsed_manifest(data)
        if issues:
            problems["bundle.yaml"] = _document_problems(issues)
        return manifest

    def _pack(self, notes: list[str], problems: dict[str, Problems]) -> tuple[Pack | None, str | None]:
        data = self._document("pack.yaml", notes)
        if data is None:
            notes.append("no pack.yaml; without it there are no weights, so no quality and no recommendation")
            return None, None
        pack, sha, issues = _parsed_pack(data)
        if issues:
            problems["pack.yaml"] = _document_problems(issues)
        return pack, sha

    def _document(self, name: str, notes: list[str]) -> bytes | None:
        data = None
        try:
            data = read_document(self.path / name)
        except OSError as error:
            notes.append(f"{name} could not be read: {error.strerror or error}")
            self._failures.append(machine_error(self.path / name, error))
        self._documents.append(data)
        return data

    def _revision(self) -> str:
        """From the content alone: the same bundle has the same one in every process."""
        state = (self.found.name, self.found.links, sorted(self._sums.items()), self._documents_sha(), self._unread)
        return hashlib.sha256(repr(state).encode("utf-8", "replace")).hexdigest()

    def _documents_sha(self) -> str:
        return hashlib.sha256(repr(self._documents).encode()).hexdigest()

    def _text(self, name: str, notes: list[str]) -> str | None:
        data = self._document(name, notes)
        return None if data is None else data.decode("utf-8", "replace")

    # -- view.Source

    def answer(self, number: int) -> Answer | None:
        """The answer to key `number`, read again from the log."""
        return self.answers([number])[0]

    def verdict(self, number: int) -> Verdict | VerdictEvent | None:
        """The verdict on key `number`, read again from the log that it came from."""
        return self.verdicts([number])[0]

    def answers(self, numbers: Sequence[int]) -> list[Answer | None]:
        """The answers to these keys, in their order."""
        places = {number: at for number in numbers if (at := self._eval.at(number)) is not None}
        lines = self._read(LOGS[0], places)
        return [self._still(number, Answer, lines.get(number)) if number in places else None for number in numbers]

    def verdicts(self, numbers: Sequence[int]) -> list[Verdict | VerdictEvent | None]:
        """The verdicts on these keys, in their order."""
        if len(self._texts) + len(numbers) > KEPT_TEXTS:
            self._texts.clear()
        current = {number: seen for number in numbers if (seen := self._judge.seen(number)) is not None}
        unread = {n: seen for n, seen in current.items() if n not in self._texts or self._texts[n][0] != seen.digest}
        full = self._read(LOGS[1], {number: seen.at for number, seen in unread.items() if seen.full})
        told = self._read(LOGS[2], {number: seen.at for number, seen in unread.items() if not seen.full})
        for number, seen in unread.items():
            verdict: Verdict | VerdictEvent | None
            if seen.full:
                verdict = self._still(number, Verdict, full.get(number))
            else:
                verdict = self._still(number, VerdictEvent, told.get(number))
            self._texts.pop(number, None)
            if verdict is not None:
                self._texts[number] = seen.digest, verdict
        return [self._texts[n][1] if n in current and n in self._texts else None for n in numbers]

    def _still(self, number: int, model: type[K], data: bytes | None) -> K | None:
        """The line, if it still is about key `number`: a rewritten log may hold another one at its place."""
        if data is not None:
            with suppress(Refused):
                line = parse_model(model, data)
                if line.key == self._keys.key(number):
                    return line
        changed = MachineError(f"{self.path}: changed while it was read; run the same command again")
        if self._strict:
            raise changed
        self._failures.append(changed)
        return None

    def _read(self, name: str, places: dict[int, int]) -> dict[int, bytes]:
        """Number to the line at its place; without those whose line, file or bundle went away since it was counted."""
        path = self.path / name
        try:
            return read_many(path, places) if places and _ordinary(path) else {}
        except OSError as error:
            if self._strict:
                raise machine_error(path, error) from error
            self._failures.append(machine_error(path, error))
            return {}


def _digest(data: bytes) -> int:
    """64 bits that stand for a line's content."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _ordinary(path: Path) -> bool:
    """Whether `path` can be read as a log: a file, or not there (yet). To open a pipe would wait for its writer."""
    return path.is_file() or not path.exists()


# Runs of one pack carry the same bytes, and a growing run's small files stay as they are: each text is parsed once.


@lru_cache(maxsize=512)
def _parsed_manifest(data: bytes) -> tuple[Manifest | None, tuple[Issue, ...]]:
    try:
        return parse_manifest(data, "bundle.yaml"), ()
    except InputError as error:
        return None, tuple(error.issues)


@lru_cache(maxsize=64)
def _parsed_pack(data: bytes) -> tuple[Pack | None, str, tuple[Issue, ...]]:
    try:
        return parse_pack(data, "pack.yaml"), pack_sha(data), ()
    except InputError as error:
        return None, pack_sha(data), tuple(error.issues)


def _document_problems(issues: Iterable[Issue]) -> Problems:
    problems = Problems()
    for issue in issues:
        problems.add(issue.line or 1, issue.text)
    return problems


def pack_in(path: Path) -> Pack | None:
    """The pack of the bundle in folder `path`; None if it has none that anybody can read. Raises OSError."""
    data = read_document(path / "pack.yaml")
    return None if data is None else _parsed_pack(data)[0]


def open_bundle(path: Path, omit: Collection[str] = ()) -> BundleState:
    """The bundle in folder `path`; logs in `omit` are not read."""
    name = path.resolve().name
    links = tuple(sorted(item for item in (*LOGS, "bundle.yaml", "pack.yaml") if (path / item).is_symlink()))
    return BundleState(Found(path, name, links), omit)
