"""Numbers, durations and dates as two languages write them; unknown is a dash, and minus zero is zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.i18n import UNKNOWN, Words

EN, DE = Words("en"), Words("de")
NB = "\u00a0"


@pytest.mark.parametrize(
    ("value", "digits", "en", "de"),
    [
        (None, None, "—", "—"),
        (0, None, "0", "0"),
        (1234567, None, "1,234,567", "1.234.567"),
        (0.5, None, "0.5", "0,5"),
        (1 / 3, None, "0.333", "0,333"),
        (2.0, None, "2", "2"),
        (2, 2, "2.00", "2,00"),
        (3.846, 2, "3.85", "3,85"),
        (1234.5, 0, "1,234", "1.234"),
        (-1.5, 1, "-1.5", "-1,5"),
        (-0.0, 2, "0.00", "0,00"),
        (-0.004, 2, "0.00", "0,00"),
        (-0.0004, None, "0", "0"),
        (-0.4, 0, "0", "0"),
        (-0.006, 2, "-0.01", "-0,01"),
        (10**400, None, None, None),
        (1e15, None, "1e+15", "1e+15"),
        (1e300, 2, "1e+300", "1e+300"),
    ],
    ids=str,
)
def test_numbers(value: float | None, digits: int | None, en: str | None, de: str | None) -> None:
    if en is None:
        with pytest.raises(OverflowError):
            EN.number(value)
    else:
        assert (EN.number(value, digits), DE.number(value, digits)) == (en, de)


@pytest.mark.parametrize(
    ("value", "en", "de"),
    [
        (None, "—", "—"),
        (0.0, "±0.00", "±0,00"),
        (-0.0, "±0.00", "±0,00"),
        (-0.004, "±0.00", "±0,00"),
        (0.25, "+0.25", "+0,25"),
        (-1.5, "−1.50", "−1,50"),
    ],
    ids=str,
)
def test_differences_have_a_sign(value: float | None, en: str, de: str) -> None:
    assert (EN.signed(value), DE.signed(value)) == (en, de)


@pytest.mark.parametrize(
    ("rate", "digits", "en", "de"),
    [
        (None, 0, "—", "—"),
        (0.0, 0, "0%", f"0{NB}%"),
        (-0.0, 0, "0%", f"0{NB}%"),
        (1.0, 0, "100%", f"100{NB}%"),
        (0.256, 0, "26%", f"26{NB}%"),
        (0.755556, 1, "75.6%", f"75,6{NB}%"),
    ],
    ids=str,
)
def test_fractions_are_shown_as_per_cent(rate: float | None, digits: int, en: str, de: str) -> None:
    assert (EN.percent(rate, digits), DE.percent(rate, digits)) == (en, de)
    whole = None if rate is None else rate * 100
    assert EN.pct(whole, digits) == en, "what is per cent already is not multiplied again"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"), (0, f"0{NB}ms"), (0.25, f"250{NB}ms"), (1, f"1.0{NB}s"), (99.94, f"99.9{NB}s"), (100, f"100{NB}s"),
        (4000.4, f"4,000{NB}s"),
    ],
    ids=str,
)  # fmt: skip
def test_measured_durations(seconds: float | None, text: str) -> None:
    assert EN.seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "en", "de"),
    [
        (0.0, "1 second", "1 Sekunde"),
        (1.4, "1 second", "1 Sekunde"),
        (89.0, "89 seconds", "89 Sekunden"),
        (90.0, "2 minutes", "2 Minuten"),
        (3600.0, "60 minutes", "60 Minuten"),
        (9000.0, "2.5 hours", "2,5 Stunden"),
    ],
    ids=str,
)
def test_estimates_in_words(seconds: float, en: str, de: str) -> None:
    assert (EN.span(seconds), DE.span(seconds)) == (en, de)


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "—"), (0, f"0{NB}B"), (999, f"999{NB}B"), (1500, f"1.5{NB}kB"), (16e9, f"16.0{NB}GB"), (2e6, f"2.0{NB}MB")],
    ids=str,
)
def test_sizes(size: float | None, text: str) -> None:
    assert EN.bytes(size) == text


@pytest.mark.parametrize(
    ("value", "en", "de"),
    [
        (None, "—", "—"),
        (0, "1970-01-01 00:00 UTC", "01.01.1970, 00:00 UTC"),
        (-1.0, "1969-12-31 23:59 UTC", "31.12.1969, 23:59 UTC"),
        (datetime(2026, 6, 20, 12, 48, tzinfo=timezone(timedelta(hours=2))), "2026-06-20 10:48 UTC",
         "20.06.2026, 10:48 UTC"),
        (1e300, "—", "—"),
        (float("nan"), "—", "—"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23))), "—", "—"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=23))), "—", "—"),
    ],
    ids=str,
)  # fmt: skip
def test_moments(value: datetime | float | None, en: str, de: str) -> None:
    assert (EN.moment(value), DE.moment(value)) == (en, de)


@pytest.mark.parametrize(
    ("moment", "day", "shown"),
    [
        (datetime(2026, 1, 1, 23, 30, tzinfo=UTC), "02.01.2026", "02.01.2026, 00:30 CET"),
        (datetime(2026, 7, 1, 22, 30, tzinfo=UTC), "02.07.2026", "02.07.2026, 00:30 CEST"),
    ],
    ids=["winter", "summer"],
)
def test_the_zone_of_the_site_decides_the_day(moment: datetime, day: str, shown: str) -> None:
    words = Words("de", "Europe/Berlin")
    assert (words.day(moment), words.moment(moment)) == (day, shown)


def test_an_unknown_zone_is_none_of_ours() -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        Words("en", "Mars/Base")


@pytest.mark.parametrize(
    ("n", "en", "de"), [(0, "0 runs", "0 Läufe"), (1, "1 run", "1 Lauf"), (2, "2 runs", "2 Läufe")]
)
def test_plurals(n: int, en: str, de: str) -> None:
    assert (EN.n_("%(n)s run", "%(n)s runs", n), DE.n_("%(n)s run", "%(n)s runs", n)) == (en, de)


def test_what_is_not_translated_stays_english_and_percent_signs_are_no_trap() -> None:
    assert DE._("No such sentence, 100%") == "No such sentence, 100%"
    assert DE._("%(a)s of 100 %%", a="<b>") == "<b> of 100 %"
    assert DE.n_("%(n)s odd thing", "%(n)s odd things", 1200) == "1.200 odd things"


@given(st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_can_be_shown(value: float | None) -> None:
    for words in (EN, DE):
        shown = [words.number(value), words.number(value, 2), words.signed(value), words.pct(value), words.bytes(value)]
        assert all(shown) and (value is not None) is (UNKNOWN not in shown)
        assert not any(text.startswith("-0") and set(text) <= set("-0.,") for text in shown)
        assert words.moment(value) and words.day(value) and words.seconds(value)
