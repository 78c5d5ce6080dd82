"""Untrusted YAML text to plain values that know their lines. Pure.

Packs, configs and answer forms are written by people and passed on between strangers, so this reader wants more than
`yaml.safe_load`: duplicates are refused, every value knows its line and its raw text (so that `id: no` can be answered
with "quote it"), and nothing that is written in a kilobyte grows into a gigabyte. It therefore builds its values from
libyaml's event stream, without recursion, under a budget of nodes and depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml

from touchstone.errors import Issue, brief

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 50
MAX_NODES: Final = 500_000
"""Nodes after aliases are expanded; a large real pack has about 1,500."""
MAX_DIGITS: Final = 1000
"""Of anything that is no text: YAML's base 60 (`1:59:59`) takes time with the square of its length."""

Path = tuple[str | int, ...]

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCALARS: Final[Any] = yaml.SafeLoader("")


class Unreadable(ValueError):
    """Not YAML that we read; carries the issues."""

    def __init__(self, issues: list[Issue]) -> None:
        self.issues = issues
        super().__init__("\n".join(map(str, issues)))


@dataclass(slots=True)
class Document:
    """A value and where its parts stand."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    """1-based line of each key (mappings) or item (sequences)."""
    raw: dict[Path, str] = field(default_factory=dict)
    """Source text of each plain scalar that YAML turned into something other than text."""
    issues: list[Issue] = field(default_factory=list)
    """Duplicate keys and the like: the value is complete, but should not be trusted."""

    def line_of(self, path: Path) -> int | None:
        """The line of `path`, or of the nearest parent that has one."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return self.lines.get(())


class _Frame:
    """One open mapping or sequence."""

    __slots__ = ("anchor", "depth", "has_key", "key", "path", "seen", "size", "value")

    def __init__(self, value: Any, path: Path, anchor: str | None) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.key: Any = None
        self.has_key = False
        self.seen: dict[Any, int] = {}
        self.size = 1
        self.depth = 1
        """Levels in it, itself included."""

    def holds(self, size: int, depth: int) -> None:
        """Something of that size and depth was put in."""
        self.size += size
        self.depth = max(self.depth, depth + 1)


_READ: Final = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")}
_MERGE: Final = "tag:yaml.org,2002:merge"


class _Tag(Exception):
    """A tag that is not read here."""


def _scalar(event: yaml.ScalarEvent) -> Any:
    tag = event.tag if event.tag not in (None, "!") else _SCALARS.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag == "tag:yaml.org,2002:value":
        return event.value
    if tag not in _READ:
        raise _Tag(tag)
    if tag != "tag:yaml.org,2002:str" and len(event.value) > MAX_DIGITS:
        raise ValueError("too long")
    # Not by construct_object: it keeps every node that it ever made.
    return _SCALARS.yaml_constructors[tag](_SCALARS, yaml.ScalarNode(tag, event.value))


def _line(event: yaml.Event) -> int:
    return cast(int, cast(Any, event.start_mark).line) + 1


def _mark_issue(source: str, error: yaml.YAMLError) -> Issue:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        parts = [part for part in (error.context, error.problem) if part]
        if parts and "mapping values are not allowed" in parts[-1]:
            parts[-1] += '; a text with ": " in it needs quotation marks around it'
        return Issue(source, mark.line + 1 if mark else None, "not valid YAML: " + ", ".join(parts))
    if isinstance(error, yaml.reader.ReaderError):
        return Issue(source, None, f"not valid YAML: {error.reason} (position {error.position})")
    return Issue(source, None, f"not valid YAML: {error}")


def load(text: str | bytes, source: str, most_nodes: int = MAX_NODES) -> Document:
    """The one document in `text`. Raises Unreadable with the place and the reason."""
    if isinstance(text, bytes):
        text = _decode(text, source)
    if len(text) > MAX_BYTES:
        raise Unreadable([Issue(source, None, f"larger than {MAX_BYTES} bytes")])
    builder = _Builder(source, most_nodes)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.feed(event)
    except yaml.YAMLError as error:
        raise Unreadable([_mark_issue(source, error)]) from None
    except UnicodeEncodeError:
        raise Unreadable([Issue(source, None, "holds a lone surrogate, which is no character")]) from None
    return builder.document


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unreadable([Issue(source, line, "not UTF-8; save the file as UTF-8")]) from None


class _Builder:
    def __init__(self, source: str, most_nodes: int) -> None:
        self.source = source
        self.most_nodes = most_nodes
        self.document = Document(None)
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int, int]] = {}
        """Name to value, size and depth."""
        self.nodes = 0
        self.documents = 0

    def fail(self, event: yaml.Event, text: str) -> Unreadable:
        return Unreadable([Issue(self.source, _line(event), text)])

    def feed(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    raise self.fail(event, "a second YAML document starts here; keep one per file")
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self.open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                frame = self.stack.pop()
                if frame.anchor:
                    self.anchors[frame.anchor] = (frame.value, frame.size, frame.depth)
                if self.stack:
                    self.stack[-1].holds(frame.size, frame.depth)
            case yaml.ScalarEvent():
                self.scalar(event)
            case yaml.AliasEvent():
                if event.anchor not in self.anchors:
                    raise self.fail(event, f"alias *{brief(event.anchor)} has no anchor before it")
                value, size, depth = self.anchors[event.anchor]
                self.count(event, size)
                self.descend(event, depth)
                if self.stack:
                    self.stack[-1].holds(size, depth)
                self.place(event, value)
            case _:
                pass

    def count(self, event: yaml.Event, size: int) -> None:
        self.nodes += size
        if self.nodes > self.most_nodes:
            raise self.fail(
                event, f"more than {self.most_nodes} values, aliases expanded; nothing that large is a pack"
            )

    def descend(self, event: yaml.Event, levels: int) -> None:
        if len(self.stack) + levels > MAX_DEPTH:
            raise self.fail(event, f"nested deeper than {MAX_DEPTH} levels")

    def open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self.descend(event, 1)
        self.count(event, 1)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        path = self.place(event, value)
        self.stack.append(_Frame(value, path, event.anchor))

    def scalar(self, event: yaml.ScalarEvent) -> None:
        self.count(event, 1)
        try:
            value = _scalar(event)
        except _Tag as tag:
            name = brief(str(tag).replace("tag:yaml.org,2002:", "!!", 1))
            remedy = "merge keys (<<) are not read here; write the keys out"
            raise self.fail(
                event, remedy if str(tag) == _MERGE else f"the tag {name} is not read here; remove it"
            ) from None
        except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError):
            raise self.fail(event, f"YAML cannot read {event.value[:40]!r} as what it looks like; quote it") from None
        if isinstance(value, str) and "\0" in value:
            # No log could hold it: what is copied from here into an answer would make its line unreadable.
            raise self.fail(event, "holds a NUL character (\\0), which is no text; remove it")
        path = self.place(event, value)
        if not isinstance(value, str):
            self.document.raw[path] = event.value
        if event.anchor:
            self.anchors[event.anchor] = (value, 1, 0)
        if self.stack:
            self.stack[-1].holds(1, 0)

    def place(self, event: yaml.Event, value: Any) -> Path:
        """Put `value` where the reader stands; returns its path."""
        line = _line(event)
        if not self.stack:
            self.document.value = value
            self.document.lines[()] = line
            return ()
        frame = self.stack[-1]
        if isinstance(frame.value, list):
            path = (*frame.path, len(frame.value))
            self.document.lines[path] = line
            frame.value.append(value)
            return path
        if not frame.has_key:
            self.key(event, frame, value, line)
            return (*frame.path, str(value))
        key = frame.key
        frame.has_key = False
        path = (*frame.path, str(key))
        if key not in frame.value:
            frame.value[key] = value
        return path

    def key(self, event: yaml.Event, frame: _Frame, key: Any, line: int) -> None:
        if isinstance(key, (dict, list)):
            raise self.fail(event, "a mapping or list cannot be a key here")
        if key in frame.seen:
            self.document.issues.append(
                Issue(self.source, line, f"'{brief(key)}' is given twice (first in line {frame.seen[key]}); keep one")
            )
        else:
            frame.seen[key] = line
            self.document.lines[(*frame.path, str(key))] = line
        frame.key, frame.has_key = key, True


def mapping(data: bytes | None) -> dict[str, Any]:
    """The mapping that `data` holds, empty if it holds none: for carrying on what is there, whatever its state."""
    try:
        value = None if data is None else load(data, "").value
    except Unreadable:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def texts(value: Any) -> Any:
    """`value` with mapping keys as text, as JSON would have them."""
    if isinstance(value, Mapping):
        return {str(key): texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [texts(item) for item in value]
    return value
