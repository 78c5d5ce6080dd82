"""Packs, forms and configs as people write them: every fault is named with its line and the way to mend it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchstone import yamlsource
from touchstone.contracts.config import parse_config
from touchstone.contracts.manifest import parse_manifest
from touchstone.contracts.pack import parse_pack
from touchstone.contracts.response import parse_meta_response
from touchstone.errors import InputError
from touchstone.resources import find_pack, pack_names

GOOD = """\
id: small
title: A pack
version: "1"
language: en
dimensions:
  - {id: helpful, name: Helpful, weight: 3, levels: {1: bad, 5: good}}
  - {id: safe, name: Safe, weight: 0.5, ko_floor: 3}
thresholds: {recommend: 75, limited: 50}
variants:
  - {id: plain, system: ""}
prompts:
  - {id: p01, text: "What?"}
"""


def issues(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse_pack(text, "x/pack.yaml")
    return str(caught.value)


def test_a_good_pack() -> None:
    pack = parse_pack(GOOD, "pack.yaml")
    assert [dimension.id for dimension in pack.dimensions] == ["helpful", "safe"]
    assert pack.dimensions[0].levels == {1: "bad", 5: "good"} and pack.prompts[0].red_flags == ()
    assert pack.prompt("p01") is not None and pack.prompt("nope") is None


@pytest.mark.parametrize("name", pack_names())
def test_the_packs_that_ship_are_good(name: str) -> None:
    pack = parse_pack(find_pack(name).read_bytes(), name)
    assert pack.id == name and len(pack.prompts) >= 16 and len(pack.variants) == 2
    assert any(dimension.ko_floor for dimension in pack.dimensions) and any(p.red_flags for p in pack.prompts)
    assert all(prompt.reference and prompt.title and prompt.category for prompt in pack.prompts)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("id: small", "id: Small!", 1, "a-z"),
        ("id: small", "id: no", 1, 'quote it: "no"'),
        ("id: p01", "id: 007", 12, 'quote it: "007"'),
        ("id: p01", "id: 3:15", 12, 'quote it: "3:15"'),
        ("id: p01", "id: 2024-01-01", 12, "quote it"),
        ('version: "1"', "version: 1", 3, 'quote it: "1"'),
        ("weight: 3", "weight: 0", 6, "must be > 0 (got 0)"),
        ("weight: 3", "weight: -1", 6, "must be > 0 (got -1)"),
        ("weight: 3", "weight: .nan", 6, "finite"),
        ("weight: 3", "weight: .inf", 6, "finite"),
        ("weight: 3", "weight: heavy", 6, "must be a number"),
        ("weight: 3", "weight: true", 6, "must be a number"),
        ("ko_floor: 3", "ko_floor: 9", 7, "must be <= 5 (got 9)"),
        ("ko_floor: 3", "ko_floor: 2.5", 7, "whole number"),
        ("levels: {1: bad, 5: good}", "levels: {7: bad}", 6, "must be <= 5"),
        ("language: en", "language: fr", 4, "'de' or 'en'"),
        ("recommend: 75", "recommend: 30", 8, "must not be above"),
        ("recommend: 75", "recommend: 101", 8, "must be <= 100"),
        ("title: A pack", "titel: A pack", 2, "not a known key"),
        ("title: A pack", "title: A\ntitle: B", 3, "given twice"),
        ("id: safe", "id: helpful", None, "given twice"),
        ("dimensions:", "dimensions: none\nx:", 5, "must be a list"),
        ("prompts:\n  - {id: p01, text: \"What?\"}", "prompts: []", 11, "at least 1 item(s)"),
        ("text: \"What?\"", "text: \"\"", 12, "at least 1 character"),
        ("text: \"What?\"", "reference: x", 12, "text is missing"),
    ],
)  # fmt: skip
def test_each_fault_has_its_place_and_its_remedy(old: str, new: str, line: int | None, says: str) -> None:
    assert old in GOOD
    found = issues(GOOD.replace(old, new, 1))
    assert says in found
    if line is not None:
        assert f"x/pack.yaml:{line}: " in found


def test_an_id_given_twice_is_named_beside_other_faults() -> None:
    found = issues(GOOD.replace("id: safe", "id: helpful").replace("weight: 3", "weight: 0"))
    assert "x/pack.yaml:7: dimensions[1].id: 'helpful' is given twice" in found and "must be > 0" in found


def test_all_faults_come_at_once() -> None:
    found = issues(GOOD.replace("weight: 3", "weight: 0").replace("language: en", "language: xx").replace("p01", "P 1"))
    assert len(found.splitlines()) == 3


def test_ids_that_yaml_misreads_are_fine_when_quoted() -> None:
    for name in ("no", "007", "3-15", "null"):
        assert parse_pack(GOOD.replace("id: p01", f'id: "{name}"'), "p").prompts[0].id == name


ALIAS_BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [" + ",".join([f"*{chr(97 + n)}"] * 10) + "]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be a mapping"),
        ("# only a comment\n", "must be a mapping"),
        ("[1, 2]", "must be a mapping"),
        ("just text", "must be a mapping"),
        ("a: b\n---\nc: d\n", "second YAML document"),
        (ALIAS_BOMB, "aliases expanded"),
        ("a: *nowhere", "no anchor"),
        ("a: &a [*a]", "no anchor"),
        ("[" * 10_000, "nesting"),
        ("{a: " * 10_000, "nested deeper"),
        ("\n".join(" " * n + "a:" for n in range(2_000)), "nest"),
        ("- " * 60 + "x", "nested deeper"),
        ("id: " + "9" * 400, "quote it"),
        ("id: " + "9" * 5_000, "quote it"),
        ("id: 0x" + "f" * 100_000, "quote it"),
        ("a: !!python/object:os.system x", "is not read here"),
        ("a: !!binary '*'", "the tag !!binary is not read here"),
        ("a: 2024-99-99", "quote it"),
        ("? [a]\n: b", "cannot be a key"),
        ("a: \x00", "not valid YAML"),
        ("a: '\ud800'", "surrogate"),
        ("a: [", "not valid YAML"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"id: caf\xe9", "UTF-8"),
        ("<<: {id: x}", "merge keys"),
    ],
    ids=lambda value: repr(value[:16]),
)
def test_hostile_yaml_ends_in_a_named_refusal(text: str | bytes, says: str) -> None:
    assert says in issues(text)


def test_a_byte_order_mark_is_no_fault() -> None:
    assert parse_pack(b"\xef\xbb\xbf" + GOOD.encode(), "p").id == "small"


def test_aliases_are_taken_where_they_are_few() -> None:
    text = GOOD.replace("levels: {1: bad, 5: good}", "levels: &l {1: bad}").replace(
        "ko_floor: 3", "ko_floor: 3, levels: *l"
    )
    assert parse_pack(text, "p").dimensions[1].levels == {1: "bad"}


YAMLISH = st.text(alphabet=st.sampled_from(list("ab01:-[]{},&*!|>'\"# \n\t?%@`~.é\x00\ud800<")), max_size=200)


@settings(max_examples=300, deadline=None)
@given(st.one_of(YAMLISH, st.binary(max_size=200)))
def test_any_text_ends_in_a_value_or_in_issues(text: str | bytes) -> None:
    for parse in (parse_pack, parse_manifest, parse_config, parse_meta_response):
        try:
            parse(text, "x")
        except InputError as error:
            assert error.issues


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet="abc é\n:#", max_size=10),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_values_are_those_of_an_ordinary_reader(value: object) -> None:
    import yaml

    assert yamlsource.load(yaml.safe_dump(value, allow_unicode=True), "x").value == value


def test_a_response_form_full_of_nulls_parses_and_overall_takes_its_english_forms() -> None:
    text = """
reference: null
cells:
  - model: m
    variant: v
    fresh_scores: {dimensions: {safe: null, helpful: 4}, ko_fired: null, overall: %s}
    critique: {dimensions: {safe: {cites_evidence: null, names_improvement: null, note: null}}, summary: null}
recommendations: [null, "Name the improvement."]
"""
    wanted = {
        "null": None,
        "yes": "Ja",
        "No": "Nein",
        "with reservations": "Mit Einschränkung",
        "Ja": "Ja",
        "true": "Ja",
    }
    for written, meant in wanted.items():
        response = parse_meta_response(text % written)
        assert response.cells[0].fresh_scores is not None and response.cells[0].fresh_scores.overall == meant
    with pytest.raises(InputError, match=r"cells\[0\].fresh_scores.dimensions.helpful must be <= 5"):
        parse_meta_response(text.replace("helpful: 4", "helpful: 6") % "null")
    with pytest.raises(InputError, match=r"cells\[0\].model"):
        parse_meta_response(text.replace("model: m", "model: 7") % "null")


def test_a_config_may_be_empty_and_lang_may_be_text() -> None:
    assert parse_config("", "c").runs == "runs"
    assert parse_config("lang: en, de", "c").lang == ["en", "de"]
    with pytest.raises(InputError, match="timezone"):
        parse_config("timezone: Mars/Base", "c")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("id: plain", "id: no", 'x/pack.yaml:10: variants[0].id must be text, but YAML reads no as something else; '
                                'quote it: "no"'),
        ("id: plain", "id: ~", 'x/pack.yaml:10: variants[0].id must be text, but YAML reads ~ as something else; '
                               'quote it: "~"'),
        ("id: plain", "id: 1_0", 'quote it: "1_0"'),
        ("id: plain", "id: 1e3", None),
        ("id: plain", "id: 1.0e+3", 'quote it: "1.0e+3"'),
        ("id: plain", "id: off", 'quote it: "off"'),
        ("id: plain", "id: y", None),
        ("id: plain", "id: .inf", 'quote it: ".inf"'),
        ("id: plain", "id: -x", "x/pack.yaml:10: variants[0].id must consist of a-z, 0-9, - and _"),
        ("id: plain", "id: ünder", "x/pack.yaml:10: variants[0].id must consist of a-z, 0-9, - and _"),
        ("id: plain", 'id: "a\\n"', "x/pack.yaml:10: variants[0].id must consist of a-z, 0-9, - and _"),
        ("id: plain", "id: " + "x" * 101, "at most 100 characters"),
        ("id: plain", "id: " + "9" * 900, "something else; quote it"),
        ("title: A pack", "glossary: {no: x}\ntitle: T", "x/pack.yaml:2: glossary has a key that YAML reads as "
                                                        "something other than text; quote it"),
        ("title: A pack", 'glossary: {"no": x}\ntitle: T', None),
        ("title: A pack", 'title: "a\\0b"', "x/pack.yaml:2: holds a NUL character"),
        ("weight: 3", "weight: 2000000", "x/pack.yaml:6: dimensions[0].weight must be <= 1000000 (got 2000000)"),
        ("weight: 3", "weight: '3'", "x/pack.yaml:6: dimensions[0].weight must be a number"),
        ("weight: 3", "weight: 1e400", "x/pack.yaml:6: dimensions[0].weight must be a number"),
        ("weight: 3", "weight: 1.0e+400", "finite"),
        ("weight: 3", "weight: 3, weight: 4", "x/pack.yaml:6: 'weight' is given twice (first in line 6); keep one"),
        ("ko_floor: 3", "ko_floor: 0", "x/pack.yaml:7: dimensions[1].ko_floor must be >= 1 (got 0)"),
        ("ko_floor: 3", "ko_floor: ~", None),
        ("levels: {1: bad, 5: good}", "levels: {1: bad, 1: good}", "'1' is given twice"),
        ("levels: {1: bad, 5: good}", "levels: {one: bad}", "x/pack.yaml:6: dimensions[0].levels.one"),
        ("limited: 50", "limited: -1", "x/pack.yaml:8: thresholds.limited must be >= 0 (got -1)"),
        ("limited: 50", "limit: 50", "x/pack.yaml:8: thresholds.limit is not a known key; remove it or correct its"),
        ("recommend: 75", "recommend: 50", None),
        ("language: en", "language: EN", "x/pack.yaml:4: language must be one of 'de' or 'en'"),
        ("id: small", "id: small\nid: small", "x/pack.yaml:2: 'id' is given twice (first in line 1); keep one"),
        ("id: small", '"a\\nb\\e[31m": 1\nid: small', "x/pack.yaml:1: a b [31m is not a known key"),
    ],
    ids=lambda value: None if value is None else ascii(value[:30]),
)  # fmt: skip
def test_what_the_author_is_told(old: str, new: str, says: str | None) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if says is None:
        parse_pack(text, "x/pack.yaml")
    else:
        found = issues(text)
        assert says in found and all(len(line) < 300 and line.isprintable() for line in found.splitlines())


def test_issues_stand_in_the_order_of_the_file() -> None:
    text = GOOD.replace('text: "What?"', "txt: x").replace("weight: 3", "weight: 0").replace("title", "titel")
    lines = [int(line.split(":")[1]) for line in issues(text).splitlines()]
    assert lines == sorted(lines) and len(lines) == 5


@pytest.mark.timeout(60)
def test_an_endless_number_ends_soon() -> None:
    assert "quote it" in issues(GOOD.replace("weight: 3", "weight: 1" + ":59" * 1_000_000))
    with pytest.raises(InputError, match=r"bundle\.yaml:1: nested deeper than 50 levels"):
        parse_manifest("params: " + "[" * 60 + "]" * 60, "bundle.yaml")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("", False), ("{}", True), ("later: {a: [1]}", True), ("schema: 2", True), ("models: m", False),
        ("created: 2026-06-20", True), ("created: 2026-06-20T10:48:44+02:00", True), ("created: soon", False),
        ("repeats: 0", False), ("host: {ram_bytes: -1}", False), ("host: null", True), ("peak_ram_bytes: .nan", False),
        ("params: {temperature: .inf}", True), ("pack: hand", False), ("pack: {id: hand, later: 1}", True),
    ],
    ids=ascii,
)  # fmt: skip
def test_manifests_outlive_versions_but_not_wrong_types(text: str, good: bool) -> None:
    if good:
        manifest = parse_manifest(text, "bundle.yaml")
        assert manifest.created is None or manifest.created.tzinfo is not None
    else:
        with pytest.raises(InputError, match=r"^bundle\.yaml"):
            parse_manifest(text, "bundle.yaml")


@pytest.mark.parametrize(
    ("overall", "meant"),
    [("Ja", "Ja"), ("'Mit Einschränkung'", "Mit Einschränkung"), ("Nein", "Nein"), ("YES", "Ja"), ("no", "Nein"),
     ("false", "Nein"), ("on", "Ja"), ("limited", "Mit Einschränkung"), ("' nein '", "Nein"), ("maybe", None),
     ("1", None), ("[Ja]", None)],
)  # fmt: skip
def test_the_reference_s_overall_word(overall: str, meant: str | None) -> None:
    text = f"cells:\n- model: m\n  variant: v\n  fresh_scores: {{overall: {overall}}}\n"
    if meant is None:
        with pytest.raises(InputError, match=r":4: cells\[0\]\.fresh_scores\.overall must be one of Yes, "):
            parse_meta_response(text)
    else:
        cell = parse_meta_response(text).cells[0]
        assert cell.fresh_scores is not None and cell.fresh_scores.overall == meant


@pytest.mark.parametrize(
    ("dimensions", "says"),
    [
        ("{safe: 0}", "dimensions.safe must be >= 1 (got 0)"),
        ("{safe: 6}", "dimensions.safe must be <= 5 (got 6)"),
        ("{safe: 4.5}", "dimensions.safe must be a whole number"),
        ("{safe: 'four'}", "dimensions.safe must be a whole number from 1 to 5 (got 'four')"),
        ("{safe: '4,5'}", "dimensions.safe must be a whole number from 1 to 5 (got '4,5')"),
        ("{safe: yes}", "dimensions.safe must be a whole number"),
        ("[4]", "dimensions must be a mapping"),
        ("{safe: 4, safe: 5}", "'safe' is given twice"),
    ],
    ids=ascii,
)
def test_a_fresh_score_that_is_none_is_named_by_its_path(dimensions: str, says: str) -> None:
    text = f"cells:\n- model: m\n  variant: v\n  fresh_scores:\n    dimensions: {dimensions}\n"
    with pytest.raises(InputError) as caught:
        parse_meta_response(text)
    prefix = "" if "twice" in says else "cells[0].fresh_scores."
    assert f"judge_meta_response.yaml:5: {prefix}{says}" in str(caught.value)
