"""Output for file systems that fold names: whatever runs, packs and models are called, no two files are one there."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.faults.cases import SMALL
from tests.faults.faults import tree
from tests.making import make_bundle

RUNS = (
    "Run",
    "run",
    "RUN",
    "straße",
    "STRASSE",
    "é",
    "e\u0301",
    "ﬁ",
    "fi",
    "İ",
    "i̇",
    "ſ",
    "s",
    "k",
    "\u212a",
    "x/y",
    "X/Y",
)
MODELS = ("Model", "model", "MODEL", "ﬁne", "fine", "é", "e\u0301", "con", "CON", "a/b", "A/B")
PACKS = ("probe", "PROBE", "Probe", "probe.")


def folded(path: str) -> str:
    """As HFS+, APFS, NTFS, FAT and ext4 with casefold would have it, all at once."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", path).casefold()).casefold()


@pytest.mark.skipif(sys.platform != "linux", reason="a file system that keeps the names of these runs apart")
@pytest.mark.parametrize("words", [("--lang", "en,de"), ("--target", "obsidian")], ids=["site", "vault"])
def test_no_two_files_are_one(cli: Cli, words: tuple[str, ...]) -> None:
    small = {**SMALL, "prompts": SMALL["prompts"][:1]}
    for number, name in enumerate(RUNS):
        pack = {**small, "id": PACKS[number % len(PACKS)], "title": f"Pack {number}"}
        models = MODELS if number < 3 else ("m",)
        make_bundle(cli.home / "runs" / name, models=models, pack=pack, events=False)
    cli("build", "--out", "out", *words)
    paths = list(tree(cli.home / "out"))
    twice = [path for path, count in Counter(map(folded, paths)).items() if count > 1]
    assert not twice and len(paths) > len(RUNS)
    folders = {parent for path in paths for parent in map(str, Path(path).parents)}
    clash = [path for path, count in Counter(map(folded, folders)).items() if count > 1]
    assert not clash, "a folder written in two ways is two folders here and one there"
    for part in {part for path in paths for part in path.split("/")}:
        assert unicodedata.normalize("NFC", part) == part and len(part.encode()) <= 255
