"""What a judge says: a verdict, a report, or a reason why not; never a score that is none."""

from __future__ import annotations

from functools import lru_cache

from touchstone.contracts.pack import Pack, parse_pack
from touchstone.jsonsource import Refused
from touchstone.judge_prompts import read_report, read_verdict
from touchstone.resources import find_pack


@lru_cache(maxsize=1)
def pack() -> Pack:
    path = find_pack("everyday")
    return parse_pack(path.read_bytes(), str(path))


def check(data: bytes) -> None:
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    try:
        verdict = read_verdict(text)
    except Refused as reason:
        assert str(reason) and "\n" not in str(reason)
    else:
        assert verdict.score in range(1, 6) and verdict.red_flag in (True, False)
        stored(verdict.rationale)
    try:
        report = read_report(text, pack())
    except Refused as reason:
        assert str(reason) and "\n" not in str(reason)
    else:
        known = {dimension.id for dimension in pack().dimensions}
        assert report.dimensions.keys() <= known
        assert any(each.score for each in report.dimensions.values())
        assert all(each.score in (None, 1, 2, 3, 4, 5) for each in report.dimensions.values())


def stored(text: str | None) -> None:
    """It can be written as it is."""
    text = text or ""
    text.encode("utf-8")
    assert "\0" not in text
