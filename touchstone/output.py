"""The output folder: what we wrote there, and what may be written and removed.

Only files that an earlier build wrote are ever removed; the list of them lies in `.touchstone/`, keyed by the output
folder, together with what is remembered of each run. A folder with files that are not ours is refused, not emptied.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from touchstone.errors import MachineError, TouchstoneError
from touchstone.options import Options
from touchstone.store.write import machine_error, replace_file, retry_locked, sweep

GENERATOR: Final = b'<meta name="generator" content="touchstone'
"""Stands in every page we write; its presence in index.html says that the folder is ours."""
STATE_DIR: Final = ".touchstone"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file as we wrote it."""

    size: int
    changed: int
    """Its time of change, ns: another one means that somebody else wrote it."""
    inputs: str | None
    """While they stay, so do the bytes; None: unknown."""


class Folder:
    """Where files go. Any process may write into it; who removes them is `Output`'s business."""

    def __init__(self, root: Path, claims: Path) -> None:
        """`claims`: the file that says what is about to be written."""
        self.root = root
        self.claims = claims
        self._resolved = root.resolve()
        self._there: set[Path] = set()

    def announce(self, paths: Iterable[str]) -> None:
        """Say what is about to be written: a build that dies half-way leaves no orphans. Raises MachineError."""
        lines = "".join(f"{path}\n" for path in paths)
        try:
            self.claims.parent.mkdir(parents=True, exist_ok=True)
            # One write, for several processes do this at once.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
            file = os.open(self.claims, flags, 0o644)
            try:
                os.write(file, lines.encode("utf-8", "surrogatepass"))
            finally:
                os.close(file)
        except OSError as error:
            raise machine_error(self.claims, error) from error

    def write(self, path: str, data: bytes) -> bool:
        """Write `data` if the file holds anything else; True if it was written. Raises MachineError."""
        target = self.root / path
        try:
            if _holds(target, data):
                return False
            parent = target.parent
            if parent not in self._there:
                if not parent.resolve().is_relative_to(self._resolved):
                    raise MachineError(f"{target}: a link in the output folder leads out of it; remove the link")
                parent.mkdir(parents=True, exist_ok=True)
                self._there.add(parent)
            try:
                replace_file(target, data)
            except FileNotFoundError:
                # Somebody cleared the folder meanwhile.
                parent.mkdir(parents=True, exist_ok=True)
                replace_file(target, data)
        except OSError as error:
            raise machine_error(target, error) from error
        return True

    def forget(self) -> None:
        """Look again at which folders there are: before each build."""
        self._there.clear()

    def kept(self, path: str, inputs: str | None) -> Kept | None:
        """What the file looks like now; None if it is not there."""
        stamp = self.stamp(path)
        return None if stamp is None else Kept(*stamp, inputs)

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Size and time of change of an ordinary file; None if there is none."""
        try:
            stat = os.lstat(f"{self.root}/{path}")
        except OSError:
            return None
        return (stat.st_size, stat.st_mtime_ns) if (stat.st_mode & 0o170000) == 0o100000 else None


def _holds(target: Path, data: bytes) -> bool:
    """Whether the file holds exactly these bytes."""
    try:
        stat = os.lstat(target)
        if (stat.st_mode & 0o170000) != 0o100000 or stat.st_size != len(data):
            return False
        return target.read_bytes() == data
    except (FileNotFoundError, NotADirectoryError):
        return False


class Output(Folder):
    """The output folder, and the list of what we wrote there."""

    def __init__(self, options: Options) -> None:
        """Raises TouchstoneError for a folder that is not ours or cannot be used."""
        key = hashlib.sha256(str(options.out.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._state = options.state_home / STATE_DIR / f"build-{key}.json"
        super().__init__(options.out, self._state.with_suffix(".claims"))
        self.memory: dict[str, Any] = {}
        """What the last build left for the next; anything that JSON can say, of any age."""
        self.known = self._load()
        """Paths that we wrote here; None if nobody remembers."""
        self._saved = self._text()
        self._begun = False
        self._unfinished = self.claims.exists() or self.known is None
        self._check(options)

    def _load(self) -> set[str] | None:
        known: set[str] | None = None
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            data = json.loads(self._state.read_text(encoding="utf-8"))
            if data["out"] == str(self._resolved):
                known = {str(path) for path in data["files"] if _inside(str(path))}
                memory = data.get("memory")
                self.memory = memory if isinstance(memory, dict) else {}
        with suppress(OSError, ValueError):
            # Announced by a build that did not come to its end.
            claimed = self.claims.read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]
            known = {*(known or ()), *(path for path in claimed if _inside(path))}
        return known

    def _check(self, options: Options) -> None:
        runs, out = options.runs.resolve(), self._resolved
        if runs == out or runs in out.parents or out in runs.parents:
            raise TouchstoneError(f"{options.out}: runs and output must not contain each other; choose another --out")
        if out.exists() and not out.is_dir():
            raise TouchstoneError(f"{options.out}: is a file, not a folder; choose another --out")
        if self.known is None and out.is_dir() and not options.force and not self._ours(out):
            raise TouchstoneError(
                f"{options.out}: holds files that touchstone did not make; "
                "choose an empty folder, or add --force to build into this one (your files stay)"
            )

    @staticmethod
    def _ours(out: Path) -> bool:
        names = [path.name for path in out.iterdir()]
        if all(name.startswith(".") or name.upper().startswith("README") for name in names):
            return True
        with suppress(OSError):
            return GENERATOR in (out / "index.html").read_bytes()[:4096]
        return False

    def remove(self, path: str) -> None:
        """Remove a file that we wrote, and folders that it leaves empty; nothing behind a link that leads elsewhere."""
        target = self.root / path
        if not target.parent.resolve().is_relative_to(self._resolved):
            return
        if target.is_dir() and not target.is_symlink():
            return
        try:
            retry_locked(target.unlink)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise machine_error(target, error) from error
        for folder in target.parents:
            if folder == self.root:
                break
            try:
                folder.rmdir()
            except OSError:
                break

    def claim(self, paths: Iterable[str]) -> None:
        """Announce those of `paths` that we did not know yet, and know them from now on."""
        fresh = [path for path in dict.fromkeys(paths) if self.known is None or path not in self.known]
        if fresh:
            self.announce(fresh)
        self.know(fresh)

    def know(self, paths: Iterable[str]) -> None:
        """These files are ours."""
        if self.known is None:
            self.known = set()
        self.known.update(paths)

    def keep_only(self, paths: Iterable[str]) -> list[str]:
        """Remove what we wrote earlier and is no longer part of the site. Returns what was removed."""
        wanted = set(paths)
        gone = sorted((self.known or set()) - wanted)
        for path in gone:
            self.remove(path)
        self.known = wanted
        return gone

    def begin(self) -> None:
        """Say that files are about to be written; `save` says that it is done. Raises MachineError."""
        if not self._begun:
            self.announce(())
            self._begun = True

    def sweep(self) -> None:
        """Remove the half-written files of builds that were killed, if there was one."""
        if not self._unfinished:
            return
        self._unfinished = False
        ours = [self.root / path for path in self.known or ()]
        inside = {
            folder for folder in {path.parent for path in ours} if folder.resolve().is_relative_to(self._resolved)
        }
        sweep(path for path in ours if path.parent in inside)

    def _text(self) -> str:
        return json.dumps({"out": str(self._resolved), "files": sorted(self.known or ()), "memory": self.memory})

    def save(self) -> None:
        """Write down what we know. Raises MachineError."""
        text = self._text()
        try:
            if text != self._saved or not self._state.exists():
                self._state.parent.mkdir(parents=True, exist_ok=True)
                replace_file(self._state, text.encode("utf-8"))
                self._saved = text
            self.claims.unlink(missing_ok=True)
            self._begun = False
        except OSError as error:
            raise machine_error(self._state, error) from error


def _inside(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/") and "\\" not in path
