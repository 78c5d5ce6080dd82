"""Words, numbers and dates in the reader's language, from gettext catalogs and the CLDR.

English sentences are the message ids. The catalogs are `.po` files in `touchstone/locale`, read as they are: there is
no compiled copy that could be older than its source.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import cache, lru_cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from babel import Locale
from babel.dates import format_datetime
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from babel.numbers import format_decimal

LANGUAGES: Final = ("en", "de")
NAMES: Final = {"en": "English", "de": "Deutsch"}
UNKNOWN: Final = "—"
"""How pages show what is null."""


def catalogs() -> Path:
    """The folder of the catalogs."""
    return Path(str(resources.files("touchstone"))) / "locale"


@cache
def _catalog(lang: str) -> Catalog | None:
    if lang == "en":
        return None
    data = (catalogs() / lang / "touchstone.po").read_bytes()
    return read_po(BytesIO(data), locale=lang, abort_invalid=True)


@lru_cache(maxsize=16384)
def _decimal(value: float | int, pattern: str, lang: str) -> str:
    """The same few numbers come again and again; Babel takes its time for each."""
    return str(format_decimal(value, format=pattern, locale=Locale.parse(lang)))


class Words:
    """Everything that depends on the language of one page."""

    def __init__(self, lang: str, timezone: str | None = None) -> None:
        self.lang = lang
        self.locale = Locale.parse(lang)
        self.zone: tzinfo = UTC if timezone is None else ZoneInfo(timezone)
        self._messages = _catalog(lang)

    # -- sentences

    def gettext(self, message: str) -> str:
        """The message in this language; the English one where there is no translation."""
        found = None if self._messages is None else self._messages.get(message)
        return str(found.string) if found is not None and found.string else message

    def ngettext(self, singular: str, plural: str, n: int) -> str:
        """The message for `n` things in this language."""
        found = None if self._messages is None else self._messages.get(singular)
        if self._messages is not None and found is not None and isinstance(found.string, (tuple, list)):
            index = self.locale.plural_form(n) != "one"
            if found.string[index]:
                return str(found.string[index])
        return singular if n == 1 else plural

    def _(self, message: str, **values: Any) -> str:
        """The message with its `%(name)s` filled in."""
        return self.gettext(message) % values if values else self.gettext(message)

    def n_(self, singular: str, plural: str, n: int, **values: Any) -> str:
        """The message for `n` things; `%(n)s` is `n` in this language's digits."""
        return self.ngettext(singular, plural, n) % {"n": self.number(n), **values}

    # -- numbers

    def number(self, value: float | int | None, digits: int | None = None) -> str:
        """A number with at most (int) or exactly (given `digits`) so many decimals; a dash for null."""
        if value is None:
            return UNKNOWN
        if abs(value) >= 1e15:
            # Nobody measured this; it only must not break a page.
            return f"{float(value):.3g}"
        if value <= 0 and round(value, 3 if digits is None else digits) == 0:
            value = 0  # -0 is written 0
        pattern = "#,##0" if digits == 0 or (digits is None and isinstance(value, int)) else "#,##0.###"
        if digits:
            pattern = "#,##0." + "0" * digits
        return _decimal(value, pattern, self.lang)

    def signed(self, value: float | None, digits: int = 2) -> str:
        """With its sign, ±0 for zero: for differences."""
        if value is None:
            return UNKNOWN
        text = self.number(abs(value), digits)
        if round(value, digits) == 0:
            return "±" + text
        return ("+" if value > 0 else "−") + text

    def percent(self, rate: float | None, digits: int = 0) -> str:
        """A fraction 0..1 as per cent: the only place that multiplies by 100."""
        return UNKNOWN if rate is None else self.pct(rate * 100, digits)

    def pct(self, value: float | None, digits: int = 0) -> str:
        """A number that is per cent already (Quality %)."""
        if value is None:
            return UNKNOWN
        return self.number(value, digits) + ("\u00a0%" if self.lang == "de" else "%")

    def seconds(self, value: float | None) -> str:
        """A measured duration: milliseconds below one second, else seconds."""
        if value is None:
            return UNKNOWN
        if value < 1:
            return self.number(value * 1000, 0) + "\u00a0ms"
        return self.number(value, 1 if value < 100 else 0) + "\u00a0s"

    def span(self, seconds: float) -> str:
        """A coarse duration in words, for estimates."""
        if seconds < 90:
            return self.n_("%(n)s second", "%(n)s seconds", max(1, round(seconds)))
        if seconds < 5400:
            return self.n_("%(n)s minute", "%(n)s minutes", round(seconds / 60))
        return self._("%(hours)s hours", hours=self.number(seconds / 3600, 1))

    def bytes(self, value: float | None) -> str:
        """Memory and file sizes, in GB, MB or kB (powers of 1000)."""
        if value is None:
            return UNKNOWN
        for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if value >= size:
                return self.number(value / size, 1) + "\u00a0" + unit
        return self.number(value, 0) + "\u00a0B"

    # -- dates

    def day(self, value: datetime | float | None) -> str:
        """The date alone: `2026-06-20`, `20.06.2026`."""
        local = self._local(value)
        pattern = "dd.MM.yyyy" if self.lang == "de" else "yyyy-MM-dd"
        return UNKNOWN if local is None else str(format_datetime(local, pattern, locale=self.locale))

    def moment(self, value: datetime | float | None) -> str:
        """Date and time to the minute, with the zone: `2026-06-20 10:48 UTC`, `20.06.2026, 10:48 UTC`."""
        local = self._local(value)
        pattern = "dd.MM.yyyy, HH:mm" if self.lang == "de" else "yyyy-MM-dd HH:mm"
        if local is None:
            return UNKNOWN
        return f"{format_datetime(local, pattern, locale=self.locale)} {local.tzname()}"

    def _local(self, value: datetime | float | None) -> datetime | None:
        """In the zone of the site; None for null and for times no calendar has."""
        try:
            if isinstance(value, (int, float)):
                value = datetime.fromtimestamp(value, UTC)
            return None if value is None else value.astimezone(self.zone)
        except (ValueError, OverflowError, OSError):
            return None
