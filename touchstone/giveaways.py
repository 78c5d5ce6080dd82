"""Keys and addresses that somebody might not have meant to publish: found in what is about to go out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SHOWN: Final = 20
"""Places that are named; the others are counted."""
_TEXT: Final = {".html", ".json", ".csv", ".md", ".js", ".xml", ".svg", ".txt"}
# A hostile answer is megabytes of what begins like a key: no pattern may look far from many places.
_KINDS: Final = (
    (
        "an API key",
        rb"\b(?:sk-(?:[a-z0-9]{1,12}-){0,3}[A-Za-z0-9_]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|hf_[A-Za-z0-9]{30,}"
        rb"|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|xox[abprs]-[0-9A-Za-z-]{10,}|glpat-[0-9A-Za-z_-]{20,})",
    ),
    ("a private key", rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"),
    (
        "a token",
        rb"(?i:bearer) [A-Za-z0-9._~+/-]{24,}"
        rb"|(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",
    ),
    ("credentials in an address", rb"\bhttps?://[^\s/@:\"'<>]{1,100}:[^\s/@\"'<>]{1,100}@"),
    ("an e-mail address", rb"\b[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
)
_ANY: Final = re.compile(b"|".join(b"(" + pattern + b")" for _, pattern in _KINDS))


def giveaways(root: Path) -> Iterator[tuple[str, int, str, str]]:
    """(path below root, line from 1, what it looks like, its beginning) of each find in the text files below `root`."""
    for path in sorted(root.rglob("*")):
        if path.suffix.lower() not in _TEXT or path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        seen: set[bytes] = set()
        for found in _ANY.finditer(data):
            if found[0] not in seen:
                seen.add(found[0])
                kind = _KINDS[(found.lastindex or 1) - 1][0]
                line = data.count(b"\n", 0, found.start()) + 1
                yield path.relative_to(root).as_posix(), line, kind, found[0][:6].decode("ascii", "replace") + "…"


def warnings(root: Path) -> Iterator[str]:
    """What to look at before the site goes out, a line each."""
    count = 0
    for path, line, kind, begin in giveaways(root):
        count += 1
        if count <= SHOWN:
            yield f"warning: {root / path}:{line}: looks like {kind} ({begin}); take it out of the run, or withhold it"
    if count > SHOWN:
        yield f"warning: {count - SHOWN} more places like these"
