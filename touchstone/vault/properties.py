"""Frontmatter as Obsidian reads it: flat, one type a property in the whole vault, links quoted. Pure.

Every name of ours but Obsidian's own three starts with `ts_`: a property has one type in all notes of a vault, and
`created` or `score` may be somebody else's already. Unknown is an empty property, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Final

import yaml

from touchstone.jsonsource import visible

Value = str | int | float | bool | datetime | None | Sequence[str]

OURS: Final = "ts_made_by"
"""The property that says that a note is ours."""
MAKER: Final = "touchstone"
LISTS: Final = ("tags", "aliases", "cssclasses")
"""Obsidian's own properties, which the user may add to."""
MAX_VALUE: Final = 500
_TAG: Final = re.compile(r"[^\w/-]+")


class _Dumper(yaml.SafeDumper):
    """Block style throughout; dates as Obsidian writes them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _date(dumper: yaml.SafeDumper, value: datetime) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:timestamp", value.strftime("%Y-%m-%dT%H:%M:%S"))


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    """Quoted wherever it is not a plain word: links have to be, and a reader of YAML 1.1 or 1.2 must not guess."""
    style = None if re.fullmatch(r"[A-Za-z][\w /-]*\w", value, re.ASCII) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(datetime, _date)
_Dumper.add_representer(str, _text)


def local(moment: datetime | None, zone: tzinfo) -> datetime | None:
    """A moment as the wall clock of `zone` shows it, which is what Obsidian's dates are; None for what has none."""
    try:
        return None if moment is None else moment.astimezone(zone).replace(tzinfo=None, microsecond=0)
    except (ValueError, OverflowError):
        return None


def text(value: str) -> str:
    """Text as a property: one line; nothing in it reads as a link, an embed or a template."""
    flat = " ".join(visible(value).split())
    for pair, apart in (("[[", "[ ["), ("]]", "] ]"), ("![", "! ["), ("<%", "< %")):
        while pair in flat:
            flat = flat.replace(pair, apart)
    return flat[:MAX_VALUE].strip()


def tag(*parts: str) -> str:
    """A nested tag: letters, digits, `_`, `-` between slashes, not of digits alone."""
    return "/".join(_TAG.sub("-", part).strip("-/") or "x" for part in ("touchstone", *parts))


def number(value: float | int | None, digits: int = 4) -> float | int | None:
    """Rounded, and never -0, NaN or infinite."""
    if value is None or isinstance(value, int):
        return value
    return round(value, digits) + 0.0 if math.isfinite(value) else None


def frontmatter(fields: Mapping[str, Value]) -> str:
    """The YAML between the two `---` lines."""
    body: Any = {name: list(value) if isinstance(value, (list, tuple)) else value for name, value in fields.items()}
    dumped = yaml.dump(
        body, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=False, width=math.inf
    )
    return re.sub(r"(?m): null$", ":", dumped)
