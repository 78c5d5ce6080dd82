"""Texts of models in notes: nothing in them acts, whatever plugin reads the raw file, and what is read is the text."""

from __future__ import annotations

import re
from typing import Final

import yaml

from fuzz.pieces import Choices
from touchstone.vault.names import block_id, link
from touchstone.vault.properties import frontmatter, tag
from touchstone.vault.safe import document, inline, label, prose

ACTS: Final = ("<%", "[[", "%%", "::", "==", "$$", "://", "```")
LINE_ENDS: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def check(data: bytes) -> None:
    choices = Choices(data[:20_000])
    text, name = choices.text(), choices.text()
    line = inline(text)
    assert not LINE_ENDS.search(line)
    for shown in (line, prose(text, "> "), document(text)):
        assert not any(bad in shown for bad in ACTS), shown
        shown.encode("utf-8")
    assert all(each.startswith(">") for each in prose(text, "> ").split("\n"))
    said = label(text)
    assert not set(said) & set("[]|#^<>%`\n") and said.strip() == said
    assert link("Run x", text).count("[[") == link("Run x", text).count("]]") == 1
    assert re.fullmatch(r"ts-[0-9a-f]{8}", block_id(text))
    assert not re.search(r"[^\w/-]", tag(name) or ""), name
    fields = {"title": text, "names": [name, text]}
    head = frontmatter(fields)
    assert not re.search(r"(?m)^(---|\.\.\.)", head)
    assert yaml.safe_load(head).keys() == fields.keys()
