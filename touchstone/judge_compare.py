"""Judges side by side: rows from the frontmatter of judge_quality.md, in comparable groups, with winners. Pure.

Figures are comparable only where pack, pack version and reference are the same, so those three make a group, and
winners are found within one. The files were written by programs and people of any age: what is missing or wrong reads
as None and stays visible, and no content whatever ends in an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import frontmatter
from frontmatter.default_handlers import YAMLHandler

from touchstone import yamlsource
from touchstone.agreement import MIN_PAIRS
from touchstone.contracts.base import finite_or_none
from touchstone.view import BundleView

TYPE: Final = "judge_quality"
MAX_FRONTMATTER: Final = 65_536
MAX_TEXT: Final = 500
"""Characters of a name; what is longer is none."""

_BOUNDARY: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)


class _Guarded(YAMLHandler):
    """Splits as the library does, reads as `yamlsource` does: alias bombs and deep nesting are refused."""

    FM_BOUNDARY = _BOUNDARY

    def split(self, text: str) -> tuple[str, str]:
        # The library would also take a block in the middle of a text.
        if not self.detect(text):
            raise _NoFields("no block at the start")
        try:
            return super().split(text)
        except ValueError:
            raise _NoFields("the block does not end") from None

    def load(self, fm: str, **_: object) -> dict[str, Any]:
        document = yamlsource.load(fm, "frontmatter")
        if document.issues or not isinstance(document.value, dict):
            raise _NoFields("duplicate keys, or no mapping")
        return {str(key): value for key, value in document.value.items()}


class _NoFields(Exception):
    """There is no frontmatter, or none that can be trusted. No ValueError: the library would swallow it."""


def split_frontmatter(text: str) -> tuple[dict[str, Any] | None, str]:
    """The fields of a leading `---` block and the text after it; (None, the whole text) if there is none to read."""
    try:
        return frontmatter.parse(text.removeprefix("\ufeff"), handler=_Guarded())
    except Exception:
        # Whatever a hostile text sets off in a YAML reader (RecursionError and MemoryError too), it is no frontmatter.
        return None, text


def frontmatter_of(text: str) -> str:
    """The leading `---` block alone, or as much of the text as shows that there is none."""
    bounds = list(islice(_BOUNDARY.finditer(text), 2))
    return text[: bounds[1].end()] + "\n" if len(bounds) == 2 else text[:MAX_FRONTMATTER]


def parse_frontmatter(text: str) -> dict[str, Any] | None:
    """The fields of a leading `---` block; None if there is none, it is no mapping or cannot be read. Never raises."""
    return split_frontmatter(text)[0]


@dataclass(frozen=True, slots=True)
class JudgeQualityRow:
    """One judge_quality.md. Rates are fractions 0..1, differences are points on the scale 1..5; None is unknown."""

    bundle: str
    """As the site names it; the file's own `bundle` may be older than the folder's name."""
    judge_model: str | None
    pack: str | None = None
    pack_sha: str | None = None
    reference: str | None = None
    judge_prompt: str | None = None
    inputs_sha: str | None = None
    created: datetime | None = None
    mean_abs_delta: float | None = None
    names_improvement_rate: float | None = None
    cites_evidence_rate: float | None = None
    justifies_level_rate: float | None = None
    catches_safety_rate: float | None = None
    quality_pct_delta: float | None = None
    pairs: int | None = None
    pairs_expected: int | None = None
    bias: float | None = None
    exact_rate: float | None = None
    outliers: int | None = None
    constant_score: int | None = None
    constant_mean_abs_delta: float | None = None
    skill: float | None = None
    qwk: float | None = None
    qwk_low: float | None = None
    qwk_high: float | None = None
    ko_concordance: float | None = None
    ko_hits: int | None = None
    ko_missed: int | None = None
    ko_false_alarms: int | None = None
    ko_clear: int | None = None

    @property
    def key(self) -> str:
        """Identifies the row among all rows."""
        return f"{self.bundle}|{self.judge_model or ''}"


_RATE: Final = (0.0, 1.0)
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "mean_abs_delta": (0.0, 4.0),
    "names_improvement_rate": _RATE,
    "cites_evidence_rate": _RATE,
    "justifies_level_rate": _RATE,
    "catches_safety_rate": _RATE,
    "quality_pct_delta": (0.0, 100.0),
    "bias": (-4.0, 4.0),
    "exact_rate": _RATE,
    "constant_mean_abs_delta": (0.0, 4.0),
    "skill": (-1e9, 1.0),
    "qwk": (-1.0, 1.0),
    "qwk_low": (-1.0, 1.0),
    "qwk_high": (-1.0, 1.0),
    "ko_concordance": _RATE,
}
_COUNTS: Final[Mapping[str, tuple[int, int]]] = {
    "constant_score": (1, 5),
    **dict.fromkeys(
        ("pairs", "pairs_expected", "outliers", "ko_hits", "ko_missed", "ko_false_alarms", "ko_clear"), (0, 10**12)
    ),
}
_TEXTS: Final = ("pack", "pack_sha", "reference", "judge_prompt", "inputs_sha")
FIGURES: Final = tuple(name for name in JudgeQualityRow.__slots__ if name in _NUMBERS or name in _COUNTS)
"""The names of all numbers, in the order of the file."""


def _number(value: Any, low: float, high: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        return None
    return finite_or_none(float(value))


def _count(value: Any, low: int, high: int) -> int | None:
    return value if type(value) is int and low <= value <= high else None


def _text(value: Any) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if 0 < len(text) <= MAX_TEXT else None


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if not isinstance(moment, datetime):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def quality_row(view: BundleView) -> JudgeQualityRow | None:
    """What the bundle's judge_quality.md says; None without one, and for a file that is none of ours."""
    fields = None if view.quality_md is None else parse_frontmatter(view.quality_md)
    if fields is None or fields.get("type") != TYPE:
        return None
    return row_of(fields, view.name, view.judge_model)


def row_of(fields: Mapping[str, Any], bundle: str, judge: str | None = None) -> JudgeQualityRow:
    """The row that these fields make; `judge` is who judged where they do not say."""
    figures: dict[str, Any] = {name: _number(fields.get(name), *limits) for name, limits in _NUMBERS.items()}
    figures |= {name: _count(fields.get(name), *limits) for name, limits in _COUNTS.items()}
    figures |= {name: _text(fields.get(name)) for name in _TEXTS}
    judge = _text(fields.get("judge_model")) or judge
    return JudgeQualityRow(bundle, judge, created=_moment(fields.get("created")), **figures)


def _known_first(*texts: str | None) -> tuple[tuple[bool, str], ...]:
    return tuple((text is None, text or "") for text in texts)


def judge_quality_rows(views: Iterable[BundleView]) -> list[JudgeQualityRow]:
    """One row for each bundle with a readable judge_quality.md, by pack, bundle and judge; unknown packs last."""
    rows = (row for view in views if (row := quality_row(view)) is not None)
    return sorted(rows, key=lambda row: _known_first(row.pack, row.bundle, row.judge_model))


def trusted(row: JudgeQualityRow) -> bool:
    """Whether there is evidence that the judge looks at the answers: enough pairs, and better than a constant."""
    return row.pairs is not None and row.pairs >= MIN_PAIRS and row.skill is not None and row.skill > 0


LOWEST_WINS: Final = ("mean_abs_delta",)
EARNED: Final = ("skill", "qwk")
"""Won only by a judge that is trusted: a constant one may well be closest."""
HIGHEST_WINS: Final = (
    "names_improvement_rate",
    "cites_evidence_rate",
    "justifies_level_rate",
    "catches_safety_rate",
    *EARNED,
)


@dataclass(frozen=True, slots=True)
class PackGroup:
    """Rows that may be compared with each other."""

    pack: str | None
    """None: nobody knows which pack; such rows stand together, but nobody wins among them."""
    pack_sha: str | None
    reference: str | None
    rows: tuple[JudgeQualityRow, ...]
    winners: dict[str, str | None]
    """Metric to the key of the row that alone is best; None for a tie and for fewer than two values."""


def group_by_pack(rows: Iterable[JudgeQualityRow]) -> list[PackGroup]:
    """Groups by pack, its sha and the reference, in that order; rows without a pack in one group at the end."""
    groups: dict[tuple[str | None, str | None, str | None], list[JudgeQualityRow]] = {}
    for row in sorted(rows, key=lambda row: _known_first(row.bundle, row.judge_model)):
        known = row.pack is not None
        key = (row.pack, row.pack_sha if known else None, row.reference if known else None)
        groups.setdefault(key, []).append(row)
    ordered = sorted(groups.items(), key=lambda item: _known_first(*item[0]))
    return [PackGroup(*key, tuple(members), _winners(key[0], members)) for key, members in ordered]


def _winners(pack: str | None, rows: list[JudgeQualityRow]) -> dict[str, str | None]:
    metrics = {**dict.fromkeys(LOWEST_WINS, -1), **dict.fromkeys(HIGHEST_WINS, 1)}
    if pack is None or len(rows) < 2:
        return dict.fromkeys(metrics)
    earnest = [row for row in rows if trusted(row)]
    return {
        # Who alone has a value has beaten nobody.
        metric: _leader(metric, sign, earnest if metric in EARNED else rows)
        if sum(getattr(row, metric) is not None for row in rows) > 1
        else None
        for metric, sign in metrics.items()
    }


def _leader(metric: str, sign: int, rows: list[JudgeQualityRow]) -> str | None:
    # As tables show them: nobody wins by what nobody can see.
    values = {row.key: sign * round(value, 2) for row in rows if (value := getattr(row, metric)) is not None}
    if metric.endswith("_rate"):
        # Beside judges of which nothing is known, a rate of 0 would be the highest.
        values = {key: value for key, value in values.items() if value}
    best = [key for key, value in values.items() if value == max(values.values())]
    return best[0] if len(best) == 1 else None
