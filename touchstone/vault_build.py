"""The notes on disk: reads the runs, renders, and writes into a vault where other people's notes live too.

Nothing is overwritten or removed that is not ours: a note is by its property `ts_made_by`, any other file by the mark
in it, the base also by what we last wrote, as people change its views. What the user wrote into a note of ours stays
(`vault.merge`). The state between builds only remembers what to remove; without it the folder itself tells.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined, TemplateError
from markupsafe import Markup

from touchstone.build import Built
from touchstone.bundle import BundleState
from touchstone.errors import MachineError, TouchstoneError
from touchstone.i18n import Words
from touchstone.making import view_notes
from touchstone.options import Options
from touchstone.output import GENERATOR, STATE_DIR
from touchstone.publishing import withhold
from touchstone.render import own_templates
from touchstone.site import Site, age
from touchstone.store.bundles import find_bundles, not_shown
from touchstone.store.write import machine_error, replace_file, retry_locked, sweep
from touchstone.vault import charts, merge, notes
from touchstone.vault.notes import Attachment, Note
from touchstone.vault.properties import LISTS
from touchstone.vault.safe import inline, prose
from touchstone.view import BundleView

MAX_NOTE_BYTES: Final = 16 * 1024 * 1024
"""A larger file in the place of a note is nobody's note."""


# -- templates


def _finalize(value: Any) -> Markup:
    """Whatever a template shows is escaped for Markdown, unless it is Markdown already."""
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else inline(value))


class Notes:
    """Templates to text; `overrides` (the user's own templates) win file by file."""

    def __init__(self, overrides: Path | None = None) -> None:
        folders = [*([overrides] if overrides else []), own_templates()]
        self.environment = Environment(
            loader=ChoiceLoader([FileSystemLoader(folder) for folder in folders]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalize,
        )
        self.environment.filters["prose"] = prose

    def render(self, note: Note, words: Words) -> str:
        """The text of a note, without properties."""
        try:
            template = self.environment.get_template(note.template)
            text = template.render(note.context, w=words, _=words._, n_=words.n_)
        except TemplateError as error:
            raise TouchstoneError(
                f"{note.template}: this template cannot be used: {error.message or type(error).__name__}"
            ) from error
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


# -- the folder


@dataclass(slots=True)
class _Entry:
    """What we remember of one file that we wrote."""

    shas: list[str] = field(default_factory=list)
    """For the base: what it may hold if nobody changed it; two while it is being written."""
    note: str | None = None
    """For a chart: the note that shows it."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    """For a note: what we had put into Obsidian's own lists."""


class Folder:
    """The folder in the vault, and the list of what we wrote there."""

    def __init__(self, options: Options) -> None:
        self.root = options.out
        self.said: list[str] = []
        key = hashlib.sha256(str(self.root.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._state = options.state_home / STATE_DIR / f"vault-{key}.json"
        self._check(options)
        loaded = self._load()
        self._before = self._scan() if loaded is None else loaded
        self._now: dict[str, _Entry] = {}

    def _load(self) -> dict[str, _Entry] | None:
        try:
            data = json.loads(self._state.read_text(encoding="utf-8"))
            if data["out"] != str(self.root.resolve()):
                return None
            return {
                path: _Entry(
                    [str(sha) for sha in entry["shas"]],
                    entry["note"],
                    {name: [str(item) for item in items] for name, items in entry["lists"].items()},
                )
                for path, entry in data["files"].items()
                if path and not path.startswith("/") and ".." not in path.split("/") and "\\" not in path
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def _scan(self) -> dict[str, _Entry]:
        """What is ours in the folders that we use, where nobody remembers."""
        found: dict[str, _Entry] = {}
        for folder in notes.FOLDERS:
            for path in sorted((self.root / folder).glob("*")):
                name = path.relative_to(self.root).as_posix()
                with suppress(MachineError):
                    data = self._read(name)
                    if data is None:
                        continue
                    if path.suffix == ".svg" and charts.MARK.encode() in data[:1000]:
                        found[name] = _Entry(note=charts.note_of(name))
                    elif path.suffix == ".md" and isinstance(state := _found(data), merge.Found):
                        found[name] = _Entry(lists={name: state.added_to(name, ()) for name in LISTS})
        return found

    def _check(self, options: Options) -> None:
        runs, out = options.runs.resolve(), self.root.resolve()
        if runs == out or runs in out.parents or out in runs.parents:
            raise TouchstoneError(f"{options.out}: runs and notes must not contain each other; choose another --out")
        if out.exists() and not out.is_dir():
            raise TouchstoneError(f"{options.out}: is a file, not a folder; choose another --out")
        with suppress(OSError):
            if GENERATOR in (out / "index.html").read_bytes()[:4096]:
                raise TouchstoneError(f"{options.out}: holds the site; choose a folder of your vault with --out")

    def _place(self, path: str) -> Path:
        target = self.root / path
        if target.is_symlink() or not target.parent.resolve().is_relative_to(self.root.resolve()):
            raise MachineError(f"{target}: a link in the folder leads out of it; remove the link")
        return target

    def _read(self, path: str) -> bytes | None:
        """What stands there; None for nothing. Raises MachineError for what is no ordinary file."""
        target = self._place(path)
        try:
            if not target.exists():
                return None
            if not target.is_file() or target.stat().st_size > MAX_NOTE_BYTES:
                raise MachineError(f"{target}: is no note; move it away")
            return target.read_bytes()
        except OSError as error:
            raise machine_error(target, error) from error

    def note(self, note: Note, body: str) -> bool:
        """Bring a note up to date; True if it was written."""
        before = self._read(note.path)
        known = self._before.get(note.path)
        found: merge.Found | None = None
        if before is not None:
            state = _found(before)
            if not isinstance(state, merge.Found):
                self._say(note.path, state)
                return False
            found = state
        earlier = known.lists if known is not None else {}
        data = merge.compose(note.properties, body, found, earlier).encode("utf-8", "replace")
        lists = {name: [str(item) for item in _items(note.properties[name])] for name in LISTS}
        self._now[note.path] = _Entry(lists=lists)
        return self._write(note.path, before, data)

    def _say(self, path: str, state: merge.Fault) -> None:
        why = (
            "the line that ends our part is gone; delete the note to have it made again"
            if state == "no marker"
            else "this note is not one of ours; rename it to have ours beside it"
        )
        self.said.append(f"{self.root / path}: left as it is: {why}")

    def attachment(self, item: Attachment) -> bool:
        """Bring a chart or the base up to date; True if it was written."""
        before, known = self._read(item.path), self._before.get(item.path, _Entry())
        data = item.content.encode("utf-8", "replace")
        if before is not None and before != data:
            marked = item.mark.encode() in before[:1000]
            if not marked or (known.shas and _sha(before) not in known.shas):
                self.said.append(f"{self.root / item.path}: left as it is: somebody changed it; delete it to have ours")
                self._now[item.path] = known
                return False
        entry = self._now[item.path] = _Entry([_sha(data)] if item.editable else [], item.note)
        if item.editable and before is not None and before != data:
            # If we are stopped now, the next build must know either as ours.
            self._now[item.path] = _Entry([_sha(before), _sha(data)], item.note)
            self.save()
            self._now[item.path] = entry
        return self._write(item.path, before, data)

    def _write(self, path: str, before: bytes | None, data: bytes) -> bool:
        if before == data:
            return False
        target = self._place(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, data)
        except OSError as error:
            raise machine_error(target, error) from error
        return True

    def keep_only(self, planned: set[str]) -> list[str]:
        """Remove what we wrote earlier and is no longer planned, except where the user wrote into it."""
        gone = {path: entry for path, entry in self._before.items() if path not in planned}
        removed, kept = [], set()
        for path, entry in sorted(gone.items(), key=lambda item: (item[1].note is not None, item[0])):
            if entry.note in kept or not self._removable(path, entry):
                kept.add(path)
                self._now[path] = entry
            elif self._remove(path):
                removed.append(path)
        return removed

    def _removable(self, path: str, entry: _Entry) -> bool:
        data = self._read(path)
        if data is None:
            return True
        if not path.endswith(".md"):
            return charts.MARK.encode() in data[:1000]
        state = _found(data)
        if isinstance(state, merge.Found) and not state.touched and not _more(state, entry):
            return True
        self.said.append(f"{self.root / path}: kept, because something of yours is in it; its source is gone")
        return False

    def _remove(self, path: str) -> bool:
        target = self._place(path)
        try:
            retry_locked(target.unlink)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise machine_error(target, error) from error
        if target.parent != self.root:
            with suppress(OSError):
                target.parent.rmdir()
        return True

    def save(self, done: bool = False) -> None:
        """Remember what is ours; before all is `done` also what was."""
        files = {
            path: {"shas": entry.shas, "note": entry.note, "lists": entry.lists}
            for path, entry in sorted({**self._before, **self._now}.items() if not done else self._now.items())
        }
        data = json.dumps({"out": str(self.root.resolve()), "files": files}, indent=0).encode("utf-8", "replace")
        try:
            if self._state.is_file() and self._state.read_bytes() == data:
                return
            self._state.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._state, data)
        except OSError as error:
            raise machine_error(self._state, error) from error


def _found(data: bytes) -> merge.Found | merge.Fault:
    try:
        return merge.read(data.decode("utf-8"))
    except UnicodeDecodeError:
        return "foreign"


def _more(found: merge.Found, entry: _Entry) -> bool:
    """Whether the user added to one of Obsidian's own lists."""
    return any(found.added_to(name, entry.lists.get(name, ())) for name in LISTS)


def _items(value: object) -> Iterator[object]:
    if isinstance(value, (list, tuple)):
        yield from value


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(options: Options) -> tuple[Site, list[str]]:
    """All runs, newest first, and what is odd about them."""
    if not options.runs.is_dir():
        raise TouchstoneError(f"{options.runs}: no such folder; run `touchstone eval` first, or name it with --runs")
    views: list[BundleView] = []
    said: list[str] = []
    for found in find_bundles(options.runs, lambda error: said.append(not_shown(error))):
        try:
            views.append(withhold(BundleState(found).refresh(), options.publish))
        except OSError as error:
            said.append(f"{found.path}: not shown: {error.strerror or error}")
    views.sort(key=age, reverse=True)
    for view in views:
        said.extend(view_notes(view))
    return Site(tuple(views), options.langs, options.base_url), said


def build(options: Options) -> Built:
    """Build the notes once, in the first language. Raises TouchstoneError."""
    folder = Folder(options)
    site, said = _read(options)
    words = Words(site.langs[0], options.timezone)
    templates = Notes(options.templates)
    built = Built(runs=len(site.bundles), notes=said)
    planned = set()
    for item in notes.plan(site, words):
        planned.add(item.path)
        if isinstance(item, Note):
            changed = folder.note(item, templates.render(item, words))
        else:
            changed = folder.attachment(item)
        built.unchanged += not changed
        if changed:
            built.written.append(item.path)
        with suppress(OSError):
            built.bytes += (options.out / item.path).stat().st_size
    sweep(folder.root / path for path in planned)
    built.removed = folder.keep_only(planned)
    folder.save(done=True)
    built.notes.extend(folder.said)
    return built
