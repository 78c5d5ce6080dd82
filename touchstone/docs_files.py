"""The folder of docs on disk: reads what changed, and only what lies in it."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyromark import __version__ as parser_version

from touchstone import docs, markdown
from touchstone.docs import Doc, Docs, Parsed, Picture
from touchstone.errors import TouchstoneError
from touchstone.output import STATE_DIR
from touchstone.slugs import hash64
from touchstone.store.bundles import ignored
from touchstone.store.write import machine_error, replace_file

MAX_TEXT: Final = 1_000_000
MAX_PICTURE: Final = 5_000_000
"""Bytes. What is larger is left out, and said."""
MAX_FILES: Final = 20_000
PICTURES: Final = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".svg"}


def code_stamp() -> str:
    """Changes with what reads the texts: then nothing that was found in them counts any more."""
    stats = (Path(str(module.__file__)).stat() for module in (docs, markdown))
    return "|".join([parser_version, *(f"{stat.st_size}|{stat.st_mtime_ns}" for stat in stats)])


class DocsFolder:
    """The folder, followed: a text that did not change is not read or parsed again."""

    def __init__(self, folder: Path, langs: tuple[str, ...], home: Path | None = None) -> None:
        """`home`: where `.touchstone/` lies. Raises TouchstoneError if there is no such folder."""
        if not folder.is_dir():
            raise TouchstoneError(f"{folder}: no such folder; name the folder of your Markdown files with --docs")
        self.folder, self._langs = folder, langs
        self._known: dict[str, tuple[tuple[int, int], Doc]] = {}
        self._docs: Docs | None = None
        name = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._memory = None if home is None else home / STATE_DIR / f"docs-{name}.json"
        self._remembered = self._load()

    def read(self) -> tuple[Docs, list[str]]:
        """What lies there now, and what was left out. Raises TouchstoneError."""
        said: list[str] = []
        texts, pictures = [], []
        known: dict[str, tuple[tuple[int, int], Doc]] = {}
        for path in self._files(said):
            source = path.relative_to(self.folder).as_posix()
            try:
                stat = path.stat()
                limit = MAX_TEXT if path.suffix == ".md" else MAX_PICTURE
                if stat.st_size > limit:
                    said.append(f"{path}: larger than {limit // 1_000_000} MB, left out")
                elif path.suffix == ".md":
                    stamp = (stat.st_mtime_ns, stat.st_size)
                    before = self._known.get(source)
                    if before is None or before[0] != stamp:
                        before = (stamp, self._doc(source, path.read_bytes().decode("utf-8", "replace")))
                    known[source] = before
                    texts.append(before[1])
                else:
                    pictures.append(Picture(source, partial(path.read_bytes)))
            except OSError as error:
                said.append(f"{path}: not shown: {error.strerror or error}")
        self._known = known
        if self._docs is None or [*self._docs.texts] != texts or len(self._docs.pictures) != len(pictures):
            self._docs = Docs(tuple(texts), tuple(pictures), self._langs)
            self._save(texts)
        said += [f"{self.folder}/{problem}" for problem in self._docs.problems]
        return self._docs, said

    # -- what was found in a text, so that the next build need not parse it again

    def _doc(self, source: str, text: str) -> Doc:
        return Doc(source, text, Parsed.from_json(self._remembered.get(hash64(text))))

    def _load(self) -> dict[str, Any]:
        try:
            data = json.loads(self._memory.read_text(encoding="utf-8")) if self._memory is not None else {}
            return dict(data["texts"]) if data.get("code") == code_stamp() else {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def _save(self, texts: list[Doc]) -> None:
        """Raises MachineError."""
        found = {doc.sha: doc.parsed.as_json() for doc in texts}
        if self._memory is None or found.keys() == self._remembered.keys():
            return
        try:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._memory, json.dumps({"code": code_stamp(), "texts": found}).encode("utf-8", "replace"))
        except OSError as error:
            raise machine_error(self._memory, error) from error
        self._remembered = found

    def _files(self, said: list[str]) -> list[Path]:
        """Texts and pictures, no links (they could lead out of the folder), nothing hidden."""
        found = []
        for folder, folders, files in os.walk(self.folder, followlinks=False):
            folders[:] = sorted(n for n in folders if not n.startswith((".", "_")) and not ignored(n))
            for name in sorted(files):
                path = Path(folder, name)
                wanted = path.suffix == ".md" or path.suffix.lower() in PICTURES
                if wanted and not name.startswith((".", "_")) and not path.is_symlink():
                    found.append(path)
        if len(found) > MAX_FILES:
            said.append(f"{self.folder}: {len(found)} files, only the first {MAX_FILES} are shown")
        return found[:MAX_FILES]
