"""Front matter and the tables below it: fields or none, whatever a stranger's file holds."""

from __future__ import annotations

from touchstone.judge_compare import parse_frontmatter, row_of, split_frontmatter
from touchstone.quality_md import read_pairs


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    fields, rest = split_frontmatter(text)
    assert fields is None or isinstance(fields, dict)
    assert rest.strip() in text.replace("\r\n", "\n") or rest == text
    assert fields is not None or rest == text
    assert parse_frontmatter(text) == fields or fields != fields
    row = row_of(fields or {}, "bundle")
    assert row.pairs is None or 0 <= row.pairs <= 10**12
    for local, reference in read_pairs(text).values():
        assert 1 <= local <= 5 and 1 <= reference <= 5
