"""Several bundles of one pack as one: `judge --shard` on many machines, or models that were asked apart.

The sources are only read. What they hold alike is taken once; where they contradict each other, everything is named
and nothing is made. The new bundle is made beside its place and renamed: complete, or not there at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import yaml

from touchstone import yamlsource
from touchstone.contracts.lines import Answer, Cell, Key, RepeatedVerdict, Report, Verdict
from touchstone.contracts.manifest import Manifest, parse_manifest
from touchstone.contracts.pack import Pack, pack_sha, parse_pack
from touchstone.errors import BundleError
from touchstone.jsonsource import Refused, parse_model
from touchstone.slugs import is_plain
from touchstone.store.bundles import LOGS, is_bundle, read_document
from touchstone.store.lines import LogTail, read_many
from touchstone.store.lock import refuse_busy
from touchstone.store.write import machine_error, replace_file, retry_locked

M = TypeVar("M", Answer, Verdict, RepeatedVerdict, Report)
Id = TypeVar("Id", bound=Hashable)

MOST_NAMED: Final = 20
"""Contradictions that are named one by one; the others are counted."""

ALIKE: Final = ("events.jsonl", "resources.jsonl", "judge_events.jsonl", "judge_quality.md")
"""Carried over where all sources have the same: they tell of one run, so two of them cannot be added up."""


@dataclass(frozen=True)
class Merged:
    """What was made."""

    bundle: Path
    answers: int
    verdicts: int
    reports: int
    notes: tuple[str, ...]
    """What was not carried over, and why."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One of the bundles."""

    path: Path
    fields: dict[str, Any]
    """bundle.yaml as it stands; empty where there is none."""
    manifest: Manifest

    @property
    def order(self) -> tuple[str, str, str]:
        """By time, then name: the result does not depend on how the sources were typed."""
        created = self.manifest.created
        return ("" if created is None else created.isoformat(), self.path.resolve().name, str(self.path.resolve()))


def merge(folders: Sequence[Path], name: str) -> Merged:
    """A bundle `name` beside the first of `folders`. Raises TouchstoneError; the message names every contradiction."""
    target = _target(folders, name)
    sources = _sources(folders)
    data, pack = _pack(sources)
    _refuse_other_params(sources)
    return _Merging(target, sources, data, pack).run()


def _target(folders: Sequence[Path], name: str) -> Path:
    if not is_plain(name) or name.endswith(".old"):
        raise BundleError(f"--into {name}: must be a plain folder name; it is made beside {folders[0]}")
    target = folders[0].resolve().parent / name
    if target.exists() or target.is_symlink():
        raise BundleError(f"{target}: is there already; choose another name")
    return target


def _sources(folders: Sequence[Path]) -> list[_Source]:
    found: dict[Path, _Source] = {}
    for path in folders:
        if not path.is_dir() or not is_bundle(path):
            raise BundleError(f"{path}: is no bundle; name the folders of the runs to be joined")
        links = [name for name in (*LOGS, "bundle.yaml", "pack.yaml") if (path / name).is_symlink()]
        if links:
            raise BundleError(f"{path / links[0]}: is a symbolic link, which is not read; put the file in its place")
        refuse_busy(path)
        try:
            data = read_document(path / "bundle.yaml")
        except OSError as error:
            raise machine_error(path, error) from error
        manifest = parse_manifest(data or b"{}", str(path / "bundle.yaml"))
        found.setdefault(path.resolve(), _Source(path, yamlsource.mapping(data), manifest))
    if len(found) < 2:
        raise BundleError(f"{folders[0]}: is one bundle only; name at least two different ones")
    return sorted(found.values(), key=lambda source: source.order)


def _pack(sources: Sequence[_Source]) -> tuple[bytes, Pack]:
    """The pack of all of them."""
    packs: dict[str, tuple[Path, bytes]] = {}
    for source in sources:
        data = read_document(source.path / "pack.yaml")
        if data is None:
            raise BundleError(f"{source.path}: has no pack.yaml, so nothing says that it belongs to the others")
        packs.setdefault(pack_sha(data), (source.path, data))
    if len(packs) > 1:
        named = "; ".join(f"{path} has {sha[:8]}" for sha, (path, _) in packs.items())
        raise BundleError(f"the bundles were made with different packs ({named}); only runs of one pack can be joined")
    ((path, data),) = packs.values()
    return data, parse_pack(data, str(path / "pack.yaml"))


_ASKED_ALIKE: Final = ("temperature", "max_tokens", "seed", "extra")


def _refuse_other_params(sources: Sequence[_Source]) -> None:
    """Answers of one bundle are asked alike, or they could not be compared. Unknown is no contradiction."""
    for name in _ASKED_ALIKE:
        values = {
            repr(params.get(name)): source
            for source in sources
            if (params := source.manifest.params) is not None and (name in params or name == "extra")
        }
        if len(values) > 1:
            named = "; ".join(f"{source.path} with {value}" for value, source in values.items())
            raise BundleError(f"the answers were asked with different {name} ({named}); they belong in bundles apart")


# -- lines of several logs


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a line stands, and what it amounts to."""

    source: int
    offset: int
    digest: bytes
    weak: bool
    """A later run would ask again: it gives way to one that stands."""


@dataclass
class _Table(Generic[M, Id]):
    """The lines of one kind of log in all sources, one an identity."""

    name: str
    model: type[M]
    ident: Callable[[M], Id]
    weak: Callable[[M], bool]
    label: Callable[[M], str]
    places: dict[Id, _Place] = field(default_factory=dict)
    broken: dict[bytes, None] = field(default_factory=dict)
    clashes: list[str] = field(default_factory=list)
    judges: dict[tuple[str | None, str | None], int] = field(default_factory=dict)
    """(judge model, sha of the prompt) to the first source that has it."""

    def collect(self, sources: Sequence[_Source]) -> None:
        for number, source in enumerate(sources):
            own: dict[Id, _Place] = {}
            for line in LogTail(source.path / self.name).read():
                if line.data is None:
                    raise BundleError(f"{source.path / self.name}:{line.index + 1}: the line is too long to be joined")
                if not line.data.strip():
                    continue
                try:
                    item = parse_model(self.model, line.data)
                except Refused:
                    # What nobody can read is nobody's to throw away.
                    self.broken[line.data] = None
                    continue
                digest = hashlib.sha256(item.model_dump_json().encode()).digest()
                own[self.ident(item)] = _Place(number, line.offset, digest, self.weak(item))
                if isinstance(item, (Verdict, Report)) and item.judge_model is not None:
                    self.judges.setdefault((item.judge_model, item.prompt_sha), number)
            for ident, place in own.items():
                self._add(ident, place, sources)

    def _add(self, ident: Id, place: _Place, sources: Sequence[_Source]) -> None:
        other = self.places.get(ident)
        if other is None or (other.weak and place.digest != other.digest):
            self.places[ident] = place
        elif other.digest != place.digest and not place.weak:
            self.clashes.append(self._clash(other, place, sources))

    def _clash(self, one: _Place, other: _Place, sources: Sequence[_Source]) -> str:
        items = [self._item(place, sources) for place in (one, other)]
        dumps = [item.model_dump() for item in items]
        fields = [name for name in dumps[0] if dumps[0][name] != dumps[1].get(name)]
        paths = " and ".join(str(sources[place.source].path) for place in (one, other))
        return f"{self.label(items[0])}: {paths} differ in {', '.join(fields)}"

    def _item(self, place: _Place, sources: Sequence[_Source]) -> M:
        data = read_many(sources[place.source].path / self.name, {0: place.offset}).get(0, b"")
        return parse_model(self.model, data)

    def lines(self, order: Iterable[Id], sources: Sequence[_Source]) -> Iterator[bytes]:
        """The lines in this order, then what nobody could read."""
        for batch in _batches(order, 1000):
            texts: dict[Id, bytes] = {}
            for number, source in enumerate(sources):
                mine = {ident: place.offset for ident in batch if (place := self.places[ident]).source == number}
                if mine:
                    texts |= read_many(source.path / self.name, mine)
            if len(texts) != len(batch):
                raise BundleError(f"{self.name}: changed while it was read; run the same command again")
            yield from (texts[ident] for ident in batch)
        yield from self.broken


def _batches(items: Iterable[Id], size: int) -> Iterator[list[Id]]:
    batch: list[Id] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _key(item: Answer | Verdict) -> str:
    return " ".join(str(part) for part in item.key)


# -- the work


class _Merging:
    """One merge, from the sources to the renamed folder."""

    def __init__(self, target: Path, sources: list[_Source], data: bytes, pack: Pack) -> None:
        self.target, self.sources, self.data, self.pack = target, sources, data, pack
        self.notes: list[str] = []
        self.answers: _Table[Answer, Key] = _Table(
            "answers.jsonl",
            Answer,
            lambda item: item.key,
            lambda item: item.status == "error",
            lambda item: f"answer {_key(item)}",
        )
        self.verdicts: _Table[Verdict, Key] = _Table(
            "judgements.jsonl",
            Verdict,
            lambda item: item.key,
            lambda item: bool(item.unscored),
            lambda item: f"verdict {_key(item)}",
        )
        self.repeats: _Table[RepeatedVerdict, tuple[Key, int]] = _Table(
            "self_consistency.jsonl",
            RepeatedVerdict,
            lambda item: (item.key, item.round),
            lambda item: bool(item.unscored),
            lambda item: f"repeat {item.round} of the verdict {_key(item)}",
        )
        self.reports: _Table[Report, Cell] = _Table(
            "reports.jsonl",
            Report,
            lambda item: item.cell,
            lambda item: any(item.dim_scores.get(dimension.id) is None for dimension in pack.dimensions),
            lambda item: f"report {item.model} {item.variant}",
        )

    def run(self) -> Merged:
        try:
            self.answers.collect(self.sources)
            self.verdicts.collect(self.sources)
            self.repeats.collect(self.sources)
            self.reports.collect(self.sources)
            self._refuse_clashes()
            self._refuse_judges()
            self._write()
        except OSError as error:
            raise machine_error(self.target, error) from error
        counts = [len(self.answers.places), len(self.verdicts.places), len(self.reports.places)]
        return Merged(self.target, counts[0], counts[1], counts[2], tuple(self.notes))

    def _refuse_clashes(self) -> None:
        clashes = [
            clash
            for found in (self.answers.clashes, self.verdicts.clashes, self.repeats.clashes, self.reports.clashes)
            for clash in found
        ]
        if clashes:
            more = [f"and {len(clashes) - MOST_NAMED} more"] if len(clashes) > MOST_NAMED else []
            lines = ["the bundles contradict each other, so nothing was made:", *clashes[:MOST_NAMED], *more]
            raise BundleError(
                "\n  ".join(lines) + "\nleave one of them out, or delete from it the lines that shall not count"
            )

    def _refuse_judges(self) -> None:
        """One judge, one prompt: null counts as unchanged, as it does everywhere."""
        for kind, judges in (
            ("verdicts", self.verdicts.judges),
            ("reports", self.reports.judges),
            ("repeats", self.repeats.judges),
        ):
            known: dict[tuple[str | None, str | None], int] = {}
            for (model, sha), number in judges.items():
                clash = next(
                    (other for other in known if other[0] != model or (sha and other[1] and other[1] != sha)), None
                )
                if clash is not None:
                    one, two = self.sources[known[clash]].path, self.sources[number].path
                    what = f"by {clash[0]} and by {model}" if clash[0] != model else f"by {model} with two prompts"
                    raise BundleError(f"{kind} were given {what} ({one} and {two}); join what one judge judged")
                known[model, sha] = number

    # -- in which order

    def _models(self) -> list[str]:
        listed = [model for source in self.sources for model in source.manifest.models]
        return list(dict.fromkeys([*listed, *(key.model for key in self.answers.places)]))

    def _variants(self) -> list[str]:
        listed = {name for source in self.sources for name in source.manifest.variants}
        seen = [key.variant for key in self.answers.places]
        known = [variant.id for variant in self.pack.variants]
        return list(
            dict.fromkeys([*(name for name in known if name in listed or name in seen), *sorted(listed), *seen])
        )

    def _answer_order(self) -> list[Key]:
        """As a run asks: model by model, then repeat, variant and prompt; what the pack does not know comes last."""
        models = {name: i for i, name in enumerate(self._models())}
        variants = {name: i for i, name in enumerate(self._variants())}
        prompts = {prompt.id: i for i, prompt in enumerate(self.pack.prompts)}
        last = len(prompts)

        def rank(key: Key) -> tuple[object, ...]:
            return (
                models[key.model], key.repeat, variants[key.variant], prompts.get(key.prompt_id, last), key.prompt_id
            )  # fmt: skip

        return sorted(self.answers.places, key=rank)

    # -- onto the disk

    def _write(self) -> None:
        beside = self.target.with_name(f".{self.target.name}.tmp")
        shutil.rmtree(beside, ignore_errors=True)
        try:
            beside.mkdir()
            self._fill(beside)
            retry_locked(lambda: beside.rename(self.target))
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise

    def _fill(self, folder: Path) -> None:
        replace_file(folder / "pack.yaml", self.data, sync=True)
        order = self._answer_order()
        same = self._alike("answers.jsonl")
        if same is not None:
            # Copies of one bundle: its slots stay what they were.
            shutil.copyfile(same, folder / "answers.jsonl")
            order = self._as_in(same)
        else:
            _write_lines(folder / "answers.jsonl", self.answers.lines(order, self.sources))
        place = {key: i for i, key in enumerate(order)}
        strays = len(place)
        _write_lines(
            folder / "judgements.jsonl",
            self.verdicts.lines(
                sorted(self.verdicts.places, key=lambda key: (place.get(key, strays), key)), self.sources
            ),
        )
        _write_lines(
            folder / "self_consistency.jsonl",
            self.repeats.lines(
                sorted(self.repeats.places, key=lambda item: (item[1], place.get(item[0], strays), item[0])),
                self.sources,
            ),
        )
        models = {name: i for i, name in enumerate(self._models())}
        variants = {name: i for i, name in enumerate(self._variants())}
        _write_lines(
            folder / "reports.jsonl",
            self.reports.lines(
                sorted(
                    self.reports.places,
                    key=lambda cell: (
                        models.get(cell.model, len(models)),
                        variants.get(cell.variant, len(variants)),
                        cell,
                    ),
                ),
                self.sources,
            ),
        )
        self._carry(folder)
        text = yaml.safe_dump(self._manifest(), allow_unicode=True, sort_keys=False)
        replace_file(folder / "bundle.yaml", text.encode("utf-8"), sync=True)

    def _alike(self, name: str) -> Path | None:
        """One of the sources' files of this name, if they all have it with the same content."""
        paths = [source.path / name for source in self.sources]
        if not all(path.is_file() and not path.is_symlink() for path in paths):
            return None
        return paths[0] if len({_file_sha(path) for path in paths}) == 1 else None

    def _as_in(self, log: Path) -> list[Key]:
        """Keys by their first line, which is what slots go by."""
        keys: dict[Key, None] = {}
        for line in LogTail(log).read():
            try:
                keys[parse_model(Answer, line.data or b"").key] = None
            except Refused:
                continue
        return list(keys)

    def _carry(self, folder: Path) -> None:
        forms = {path.name for source in self.sources for path in source.path.glob("judge_meta_*")}
        left = []
        for name in (*ALIKE, *sorted(name for name in forms if not name.endswith(".old"))):
            same = self._alike(name)
            if same is not None:
                shutil.copyfile(same, folder / name)
            elif any((source.path / name).exists() for source in self.sources):
                left.append(name)
        if left:
            self.notes.append(f"{', '.join(left)}: not the same in all bundles, so they stay where they are")

    def _manifest(self) -> dict[str, Any]:
        """What they have in common, their models and variants together, and where it all comes from."""
        fields = {
            name: self._common(name)
            for name in dict.fromkeys(name for source in self.sources for name in source.fields)
        }
        created = [source.manifest.created for source in self.sources if source.manifest.created is not None]
        known = [source.manifest.params for source in self.sources if source.manifest.params is not None]
        params = {
            name: value
            for each in known
            for name, value in each.items()
            if all(other.get(name) == value for other in known)
        }
        peaks = [source.manifest.peak_ram_bytes for source in self.sources]
        fields |= {
            "schema": 1,
            "created": min(created, default=None),
            "pack": {"id": self.pack.id, "sha256": pack_sha(self.data)},
            "models": self._models(),
            "variants": self._variants(),
            "repeats": max([key.repeat + 1 for key in self.answers.places] + self._repeats(), default=1),
            "params": params or None,
            "peak_ram_bytes": max(filter(None, peaks), default=None) if fields.get("host") else None,
            "source": "touchstone merge: "
            + ", ".join(dict.fromkeys(source.path.resolve().name for source in self.sources)),
        }
        return fields

    def _repeats(self) -> list[int]:
        return [source.manifest.repeats for source in self.sources if source.manifest.repeats is not None]

    def _common(self, name: str) -> Any:
        """The value that all of them have; None where they differ."""
        values = [source.fields.get(name) for source in self.sources]
        return values[0] if all(value == values[0] for value in values) else None


def _file_sha(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _write_lines(path: Path, lines: Iterator[bytes]) -> None:
    """A log with these lines, safely on disk; no file where there are none."""
    first = next(lines, None)
    if first is None:
        return
    with path.open("wb") as file:
        file.write(first + b"\n")
        for line in lines:
            file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
