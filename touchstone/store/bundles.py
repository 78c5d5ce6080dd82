"""Which folders below `runs/` are bundles, and the files in them.

Links are not followed below the runs folder: a bundle from a stranger must not be able to publish a file of this
machine by pointing at it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from touchstone.errors import BundleError
from touchstone.store.write import machine_error, plain_words

LOGS: Final = (
    "answers.jsonl",
    "judgements.jsonl",
    "judge_events.jsonl",
    "reports.jsonl",
    "events.jsonl",
    "resources.jsonl",
    "self_consistency.jsonl",
)
DOCUMENTS: Final = ("bundle.yaml", "pack.yaml", "scorecard.md", "judge_quality.md")
ARTIFACTS: Final = frozenset((*LOGS, *DOCUMENTS))
"""A folder with one of these is a bundle."""

_SKIPPED: Final = {".git", ".touchstone", "node_modules"}


@dataclass(frozen=True, slots=True)
class Found:
    """A bundle on disk."""

    path: Path
    name: str
    """Relative to the runs folder, with /; the folder's own name for the runs folder itself."""
    links: tuple[str, ...] = ()
    """Artifacts that are symbolic links, which are not read."""


def not_shown(error: OSError) -> str:
    """What a build says of a bundle that it could not read."""
    return f"{error.filename}: not shown: {plain_words(error)}"


def ignored(name: str) -> bool:
    """Kept for people (`*.old`), not complete yet or never to be (`.*.tmp`), or somebody else's."""
    return name.endswith(".old") or (name.startswith(".") and name.endswith(".tmp")) or name in _SKIPPED


def find_bundles(runs: Path, unreadable: Callable[[OSError], None] | None = None) -> list[Found]:
    """All bundles at or below `runs`, nested ones included, by name. None where there is no such folder.

    `unreadable` hears of folders below that cannot be read; else those that are somebody else's are left out.
    Raises MachineError if `runs` cannot be read.
    """

    def failed(error: OSError) -> None:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return  # removed just now
        if str(error.filename) == str(runs) or not (unreadable or isinstance(error, PermissionError)):
            raise machine_error(Path(error.filename), error) from error
        if unreadable is not None:
            unreadable(error)

    found = []
    for folder, folders, files in os.walk(runs, followlinks=False, onerror=failed):
        folders[:] = sorted(name for name in folders if not ignored(name))
        present = ARTIFACTS.intersection(files)
        if not present:
            continue
        path = Path(folder)
        links = tuple(sorted(name for name in present if (path / name).is_symlink()))
        if any((path / name).is_file() for name in present.difference(links)):
            relative = path.relative_to(runs).as_posix()
            found.append(Found(path, runs.resolve().name if relative == "." else relative, links))
    return sorted(found, key=lambda bundle: bundle.name)


def signature(found: Found) -> tuple[str, int]:
    """(what stands for the state of the bundle's files, their bytes): while it stays, they need not be read again."""
    stamps, size = [], 0
    with os.scandir(found.path) as entries:
        for entry in entries:
            if entry.name in ARTIFACTS:
                stat = entry.stat(follow_symlinks=False)
                stamps.append((entry.name, stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ino))
                size += stat.st_size
    return hashlib.sha256(repr((found.links, sorted(stamps))).encode()).hexdigest()[:24], size


def is_bundle(path: Path) -> bool:
    """Whether `path` is a folder that holds at least one artifact."""
    return any((path / name).is_file() for name in ARTIFACTS)


def newest_bundle(runs: Path) -> Path:
    """The bundle whose name, which starts with its date, comes last. Raises BundleError if there is none."""
    found = [bundle.path for bundle in find_bundles(runs)]
    if not found:
        raise BundleError(f"{runs}: no run here yet; run `touchstone eval` first, or name a bundle folder")
    return max(found, key=lambda path: (path.name, str(path)))


def read_document(path: Path, limit: int = 16 * 1024 * 1024) -> bytes | None:
    """A small file's bytes; None if it is missing, a link, or no ordinary file. Raises OSError."""
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(limit + 1)
