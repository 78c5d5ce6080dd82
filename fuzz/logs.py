"""Lines of every log: read as a model or refused with a reason, and what was read is written and read alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel

from touchstone import events, judge_events
from touchstone.contracts.lines import Answer, RepeatedVerdict, Report, Verdict
from touchstone.jsonsource import Refused, parse_any, parse_model
from touchstone.load import read_resources
from touchstone.store.write import encode

LONGEST_REASON: Final = 4000

READERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "answers": lambda data: parse_model(Answer, data),
    "judgements": lambda data: parse_model(Verdict, data),
    "reports": lambda data: parse_model(Report, data),
    "self_consistency": lambda data: parse_model(RepeatedVerdict, data),
    "events": events.read_event,
    "judge_events": judge_events.read_event,
    "resources": read_resources,
    "any": parse_any,
}


def check(data: bytes) -> None:
    for name, read in READERS.items():
        try:
            found = read(data)
        except Refused as reason:
            text = str(reason)
            assert text and "\n" not in text and len(text) <= LONGEST_REASON, (name, text[:200])
            continue
        if isinstance(found, BaseModel):
            line = encode(found)
            assert line.count(b"\n") == 1 and line.endswith(b"\n"), name
            assert read(line[:-1]) == found, name
    text = data.decode("utf-8", "replace")
    judge_events.parse_line(text)
    events.parse_line(text)
