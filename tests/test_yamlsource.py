"""The YAML reader: values with their places, one refusal for each trap, and no text that grows or never ends."""

from __future__ import annotations

import gc
import json
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone import yamlsource
from touchstone.yamlsource import MAX_DEPTH, MAX_NODES, Unreadable, load, mapping, texts


def refusal(text: str | bytes) -> str:
    with pytest.raises(Unreadable) as caught:
        load(text, "pack.yaml")
    (issue,) = caught.value.issues
    return str(issue)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("text", "text"),
        ("'quoted'", "quoted"),
        ('"007"', "007"),
        ("!!str 007", "007"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("'='", "="),
        ("=", "="),
        ("", None),
        ("~", None),
        ("no", False),
        ("On", True),
        ("007", 7),
        ("3:15", 195),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("2024-01-01", date(2024, 1, 1)),
        ("{}", {}),
        ("[]", []),
        ("[a, [b]]", ["a", ["b"]]),
    ],
    ids=ascii,
)
def test_values_are_those_of_yaml(written: str, value: object) -> None:
    found = load(f"a: {written}", "x").value["a"]
    assert found == value and type(found) is type(value)


def test_each_part_knows_its_line() -> None:
    document = load("top: 1\nlist:\n  - a\n  - {id: no,\n     deep: [x]}\n", "x")
    assert document.line_of(("top",)) == 1
    assert document.line_of(("list", 0)) == 3
    assert document.line_of(("list", 1, "id")) == 4
    assert document.line_of(("list", 1, "deep", 0)) == 5
    assert document.line_of(("list", 1, "is", "missing")) == 4, "the nearest parent"
    assert document.line_of(("nowhere",)) == 1
    assert document.raw[("list", 1, "id")] == "no" and ("list", 0) not in document.raw


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_lines_are_counted_whatever_ends_them(newline: str) -> None:
    assert load(newline.join(["a: 1", "b: 2", "c: 3"]), "x").line_of(("c",)) == 3


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment", "---\n", "null"], ids=ascii)
def test_an_empty_text_is_no_value_and_no_fault(text: str) -> None:
    assert load(text, "x").value is None


@pytest.mark.parametrize(
    "text",
    [b"\xef\xbb\xbfa: \xc3\xa9", "\ufeffa: \xe9", "a: \xe9"],
    ids=["bytes with a mark", "text with a mark", "text without"],
)
def test_a_byte_order_mark_is_no_part_of_the_text(text: str | bytes) -> None:
    assert load(text, "x").value == {"a": "\xe9"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb:\n  a: 1\n  c: 2\n  a: 3", ["x:5: 'a' is given twice (first in line 3); keep one"]),
        ("a: 1\na: 2\na: 3", ["x:2: 'a' is given twice (first in line 1); keep one",
                              "x:3: 'a' is given twice (first in line 1); keep one"]),
        ("1: a\n1: b", ["x:2: '1' is given twice (first in line 1); keep one"]),
        ("a: {k: 1}\nb: {k: 1}", []),
        ("- k: 1\n- k: 1", []),
        ('1: a\n"1": b', []),
    ],
    ids=["in a mapping", "thrice", "numbers", "in two mappings", "in two items", "a number and its text"],
)  # fmt: skip
def test_duplicates_are_named_with_both_places(text: str, says: list[str]) -> None:
    assert [str(issue) for issue in load(text, "x").issues] == says


def test_of_a_duplicate_the_first_value_is_kept() -> None:
    assert load("a: 1\na: 2", "x").value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\n---\nb: 2", "pack.yaml:2: a second YAML document starts here; keep one per file"),
        ("a: 1\nb: *x", "pack.yaml:2: alias *x has no anchor before it"),
        ("a: &a [*a]", "pack.yaml:1: alias *a has no anchor before it"),
        ("b:\n  <<: {c: 1}", "pack.yaml:2: merge keys (<<) are not read here; write the keys out"),
        ("a: !!set {b}", None),
        ("a: !!binary aGk=", "pack.yaml:1: the tag !!binary is not read here; remove it"),
        ("a: !!python/name:os.system x", "pack.yaml:1: the tag !!python/name:os.system is not read here; remove it"),
        ("a: !own x", "pack.yaml:1: the tag !own is not read here; remove it"),
        ("a: !!int word", "pack.yaml:1: YAML cannot read 'word' as what it looks like; quote it"),
        ("a: 2024-13-40", "pack.yaml:1: YAML cannot read '2024-13-40' as what it looks like; quote it"),
        ("a:\n- [b]\n- ? [c]\n  : d", "pack.yaml:3: a mapping or list cannot be a key here"),
        (
            "a: b: c",
            "pack.yaml:1: not valid YAML: mapping values are not allowed in this context;"
            ' a text with ": " in it needs quotation marks around it',
        ),
        ("a: [b", "pack.yaml:2: not valid YAML: while parsing a flow sequence, did not find expected ',' or ']'"),
        ("a:\n\t- b", "pack.yaml:2: not valid YAML: while scanning for the next token, "
                      "found character that cannot start any token"),
        ("a: \x00", "pack.yaml: not valid YAML: control characters are not allowed (position 3)"),
        ("a: \x1b[31m", "pack.yaml: not valid YAML: control characters are not allowed (position 3)"),
        ('ok: 1\na: "\\0"', "pack.yaml:2: holds a NUL character (\\0), which is no text; remove it"),
        ('"\\0": a', "pack.yaml:1: holds a NUL character (\\0), which is no text; remove it"),
        ("a: '\ud800'", "pack.yaml: holds a lone surrogate, which is no character"),
        ('a: "\\ud800"', "pack.yaml:1: not valid YAML: while parsing a quoted scalar, "
                         "found invalid Unicode character escape code"),
        ("a: 1\nb: caf\xe9".encode("latin-1"), "pack.yaml:2: not UTF-8; save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "pack.yaml:1: not UTF-8; save the file as UTF-8"),
    ],
    ids=ascii,
)  # fmt: skip
def test_each_trap_has_its_refusal(text: str | bytes, says: str | None) -> None:
    if says is None:
        assert load(text, "pack.yaml").value == {"a": {"b": None}}, "a tag on a mapping says nothing about its parts"
    else:
        assert refusal(text) == says


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [" + ",".join([f"*{chr(97 + n)}"] * 10) + "]\n" for n in range(9)
)
DEEP_BY_ALIAS = "x0: &a0 " + "[" * 40 + "]" * 40 + "\n" + "".join(
    f"x{n}: &a{n} " + "[" * 40 + f"*a{n - 1}" + "]" * 40 + "\n" for n in range(1, 100)
)  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "aliases expanded"),
        (DEEP_BY_ALIAS, "pack.yaml:2: nested deeper than 50 levels"),
        ("a: " + "[" * 10_000 + "]" * 10_000, "nest"),
        ("- " * 10_000, "nested deeper than 50 levels"),
        ("{a: " * 10_000, "nested deeper than 50 levels"),
        ("a: " + "1:" * 1_000_000 + "1", "quote it"),
        ("a: 1" + "_" * 1_000_000, "quote it"),
        ("a: " + "9" * 400_000, "quote it"),
        ("a: -0x" + "f" * 400_000, "quote it"),
        ("a: ." + "9" * 400_000, "quote it"),
        ("[" + "a," * MAX_NODES + "]", f"more than {MAX_NODES} values"),
        ("a: " + "x" * (16 * 1024 * 1024), "larger than 16777216 bytes"),
        ("k" * 5_000_000 + ": 1", "not valid YAML"),
        ("*" + "a" * 100_000, "has no anchor"),
        ("!" + "a" * 100_000 + " x", "is not read here"),
    ],
    ids=["alias bomb", "deep by aliases", "deep lists", "deep items", "deep mappings", "base 60", "underscores",
         "long number", "long hex", "long fraction", "many values", "16 MB", "long key", "long alias", "long tag"],
)  # fmt: skip
def test_what_could_grow_or_never_end_ends_in_a_short_refusal(text: str, says: str) -> None:
    found = refusal(text)
    assert says in found and len(found) < 250


@pytest.mark.parametrize("kind", ["[", "{a: "], ids=["lists", "mappings"])
def test_the_depth_is_counted_exactly(kind: str) -> None:
    close = "]" if kind == "[" else "}"
    load(kind * MAX_DEPTH + "1" + close * MAX_DEPTH, "x")
    assert "nested deeper" in refusal(kind * (MAX_DEPTH + 1) + "1" + close * (MAX_DEPTH + 1))


def test_the_depth_of_an_alias_counts_where_it_is_used() -> None:
    half = "[" * 25 + "1" + "]" * 25
    assert load(f"a: &a {half}\nb: {'[' * 24}*a{']' * 24}", "x").value["b"], "1 + 24 + 25 levels"
    assert "pack.yaml:2: nested deeper" in refusal(f"a: &a {half}\nb: {'[' * 25}*a{']' * 25}")


def test_a_few_aliases_are_what_they_stand_for() -> None:
    document = load("a: &a {k: no}\nb: *a\nc: &c text\nd: [*c, *c]\n", "x")
    assert document.value == {"a": {"k": False}, "b": {"k": False}, "c": "text", "d": ["text", "text"]}
    assert document.line_of(("b", "k")) == 2, "the place of the alias"


def test_long_numbers_are_numbers_up_to_a_limit() -> None:
    assert load("a: " + "9" * 400, "x").value["a"] == int("9" * 400)
    assert "quote it" in refusal("a: " + "9" * 1001)


def test_reading_again_and_again_keeps_nothing() -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(thing, (yaml.Node, yaml.Event)) for thing in gc.get_objects())

    load("a: [1, no, 2024-01-01]", "x")
    before = alive()
    for _ in range(50):
        load("a: [1, no, 2024-01-01]", "x")
    assert alive() == before


@pytest.mark.parametrize(
    ("data", "value"),
    [(None, {}), (b"", {}), (b"a: 1\n2: b", {"a": 1, "2": "b"}), (b"[a]", {}), (b"a: [", {}), (b"\xff", {})],
    ids=["missing", "empty", "good", "a list", "broken", "not UTF-8"],
)
def test_a_mapping_whatever_the_state(data: bytes | None, value: dict[str, Any]) -> None:
    assert mapping(data) == value


def test_keys_as_json_has_them() -> None:
    assert texts({1: [{True: None}], "a": {2.5: "x"}}) == {"1": [{"True": None}], "a": {"2.5": "x"}}


PLAIN = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f", exclude_categories=["Cc"])
)
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSONISH)
def test_json_is_yaml(value: object) -> None:
    assert load(json.dumps(value, ensure_ascii=False), "x").value == value


SNIPPETS = st.lists(
    st.sampled_from(
        ["a", "1", "no", ": ", "- ", "\n", "\n  ", "[", "]", "{", "}", ",", "&x ", "*x", "!t ", "!!int ", "|\n",
         ">-\n", "'", '"', "\\", "#", "?", "---", "...", "<<", "%YAML 9", "\t", "\x00", "\ud800", "é", "\u2028",
         "2024-01-01", "1:2"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(SNIPPETS, SNIPPETS.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=300)))
def test_any_text_is_a_document_or_named_issues(text: str | bytes) -> None:
    try:
        document = load(text, "x")
    except Unreadable as error:
        assert error.issues
        for issue in error.issues:
            assert issue.source == "x" and "\n" not in issue.text and len(issue.text) < 300
            assert issue.line is None or issue.line >= 1
    else:
        assert all(line >= 1 for line in document.lines.values())


def test_the_limits_are_those_that_the_tests_assume() -> None:
    assert (yamlsource.MAX_DEPTH, yamlsource.MAX_BYTES) == (50, 16 * 1024 * 1024)
