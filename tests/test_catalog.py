"""The catalogs are complete: a sentence without a translation, or a translation without its sentence, is a fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from tests.conftest import ROOT
from touchstone.i18n import LANGUAGES, Words

KEYWORDS = {"_": None, "n_": (1, 2)}
METHODS = [("**.py", "python"), ("**.html", "jinja2"), ("**.md", "jinja2")]
PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def sentences() -> Iterator[str | tuple[str, ...]]:
    """Every message that the code and the templates use."""
    for folder in ("touchstone", "site_templates"):
        options = {"**.html": {"trimmed": "true"}, "**.md": {"trimmed": "true"}}
        for _, _, message, _, _ in extract_from_dir(ROOT / folder, METHODS, options, KEYWORDS):
            yield message


def catalog(lang: str) -> Catalog:
    with (ROOT / "touchstone" / "locale" / lang / "touchstone.po").open("rb") as file:
        return read_po(file, locale=lang, abort_invalid=True)


def forms(value: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    if value is None:
        return ("",)
    return (value,) if isinstance(value, str) else tuple(value)


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "en"])
def test_every_sentence_is_translated_and_none_is_left_over(lang: str) -> None:
    used = {forms(message)[0]: forms(message) for message in sentences()}
    known = {forms(message.id)[0]: message for message in catalog(lang) if message.id}
    assert sorted(used.keys() - known.keys()) == [], "not in the catalog; run `make messages`"
    assert sorted(known.keys() - used.keys()) == [], "nobody says this any more; run `make messages`"
    assert [key for key, message in known.items() if not all(forms(message.string))] == []
    assert [key for key, message in known.items() if message.fuzzy] == []
    assert [key for key, message in known.items() if len(forms(message.string)) != len(used[key])] == []


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "en"])
def test_translations_have_the_placeholders_of_their_sentence(lang: str) -> None:
    for message in catalog(lang):
        if message.id:
            wanted = set(PLACEHOLDER.findall(" ".join(forms(message.id))))
            for form in forms(message.string):
                # A singular may leave out the number that it says in words.
                assert set(PLACEHOLDER.findall(form)) | {"n"} == wanted | {"n"}, message.id


def test_words_speak_their_language() -> None:
    en, de = Words("en"), Words("de", "Europe/Berlin")
    assert (en._("Runs"), de._("Runs")) == ("Runs", "Läufe")
    assert [de.n_("%(n)s run", "%(n)s runs", n) for n in (0, 1, 2, 1234)] == [
        "0 Läufe",
        "1 Lauf",
        "2 Läufe",
        "1.234 Läufe",
    ]
    assert (en.number(3.84, 2), de.number(3.84, 2)) == ("3.84", "3,84")
    assert (en.percent(0.256), de.percent(0.256)) == ("26%", "26\u00a0%")
    assert (en.signed(-0.5), de.signed(0.001), de.signed(1.25)) == ("−0.50", "±0,00", "+1,25")
    assert en.moment(0.0) == "1970-01-01 00:00 UTC" and de.moment(1782000000.0) == "21.06.2026, 02:00 CEST"
    assert {words.number(None) for words in (en, de)} == {"—"}
    assert en.moment(1e300) == "—" and en.seconds(0.25) == "250\u00a0ms"


def test_the_catalogs_are_where_the_package_looks() -> None:
    assert (Path(ROOT) / "touchstone" / "locale" / "de" / "touchstone.po").is_file()
