"""Judges side by side: against a reference where one was asked, and on the same answers where several judged them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from touchstone.agreement import INTERVAL_PAIRS, MIN_PAIRS
from touchstone.i18n import UNKNOWN, Words
from touchstone.judge_compare import JudgeQualityRow, PackGroup, group_by_pack, judge_quality_rows
from touchstone.judge_words import coverage, doubt, real
from touchstone.pages.bias_plot import bias_plot
from touchstone.pages.common import Link
from touchstone.pages.compare import PackKey, pack_heads
from touchstone.pages.judge_advice import advice, faced, faced_words
from touchstone.pages.lineage import eval_names
from touchstone.site import Page, Site
from touchstone.view import BundleView

PAGE_ROWS: Final = 100
"""Rows on one page; a longer group goes on on the next one."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a group, as one page shows them."""

    group: PackGroup
    start: int
    stop: int


def address(number: int) -> str:
    """The path of page `number` (from 1)."""
    return "compare-judges/index.html" if number == 1 else f"compare-judges/index-{number}.html"


def plan(site: Site) -> Iterator[Page]:
    pages = _pages(group_by_pack(judge_quality_rows(site.bundles)))
    for number, parts in enumerate(pages, 1):
        yield Page(address(number), "compare_judges.html", partial(_context, site, number, parts, number < len(pages)))


def _pages(groups: list[PackGroup]) -> list[list[Part]]:
    """Groups cut so that a page holds at most PAGE_ROWS rows; always one page."""
    pages: list[list[Part]] = [[]]
    left = PAGE_ROWS
    for group in groups:
        start = 0
        while start < len(group.rows):
            if left == 0:
                pages.append([])
                left = PAGE_ROWS
            stop = min(len(group.rows), start + left)
            pages[-1].append(Part(group, start, stop))
            left -= stop - start
            start = stop
    return pages


def _context(site: Site, number: int, parts: list[Part], more: bool, words: Words) -> Mapping[str, Any]:
    heads = pack_heads(site, words)
    bundles = {bundle.name: bundle for bundle in site.bundles}
    shared = _shared(site, heads, words) if number == 1 else []
    groups = [_group(site, part, place, heads, bundles, words) for place, part in enumerate(parts, 1)]
    return {
        "lead": _lead(groups, shared, words),
        "groups": groups,
        "shared": shared,
        "models": Link("compare/index.html"),
        "number": number,
        "previous": Link(address(number - 1)) if number > 1 else None,
        "next": Link(address(number + 1)) if more else None,
    }


def _lead(groups: list[dict[str, Any]], shared: list[dict[str, Any]], words: Words) -> str:
    """What can be said first: which judge to use for the first pack, else how far judges are apart."""
    for group in groups:
        if group["pack"] is not None:
            return f"{group['head']['title']}: {group['advice']}"
    if groups:
        return words._("No file here says which pack it is about, so no judge can be compared.")
    if shared:
        return words._(
            "No judge has been checked against a reference yet. Below: how judges differ on the same answers."
        )
    return words._("No judge has been checked against a reference yet.")


# -- against a reference


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of the table: a further one is a further line in COLUMNS."""

    metric: str
    label: Callable[[Words], str]
    hint: Callable[[Words], str]
    text: Callable[[JudgeQualityRow, Words], str]
    note: Callable[[JudgeQualityRow, Words], str] = lambda _row, _words: ""


def _rate(metric: str) -> Callable[[JudgeQualityRow, Words], str]:
    return lambda row, words: words.percent(getattr(row, metric))


def _constant(row: JudgeQualityRow, words: Words) -> str:
    """What the best constant judge would get: without it a mean distance says little."""
    if row.constant_score is None or row.constant_mean_abs_delta is None:
        return ""
    return words._(
        "always %(score)s: %(delta)s", score=row.constant_score, delta=words.number(row.constant_mean_abs_delta, 2)
    )


def _few(row: JudgeQualityRow) -> bool:
    """Whether the single differences are all there is to say."""
    return row.pairs is not None and row.pairs < MIN_PAIRS


def _skill(row: JudgeQualityRow, words: Words) -> str:
    return UNKNOWN if _few(row) else real(row.skill, words)


def _kappa(row: JudgeQualityRow, words: Words) -> str:
    return UNKNOWN if _few(row) else real(row.qwk, words)


def _certainty(row: JudgeQualityRow, words: Words) -> str:
    """The interval of kappa, or why there is none."""
    if _few(row):
        return words._("fewer than %(n)s pairs", n=MIN_PAIRS)
    if row.qwk is None or row.pairs is None:
        return ""
    if row.qwk_low is not None and row.qwk_high is not None:
        return words._("%(low)s to %(high)s", low=real(row.qwk_low, words), high=real(row.qwk_high, words))
    return words._("indicative") if row.pairs < INTERVAL_PAIRS else words._("too few models")


def _missed(row: JudgeQualityRow, words: Words) -> str:
    if row.ko_missed is None or row.ko_hits is None:
        return UNKNOWN
    total = words.number(row.ko_missed + row.ko_hits)
    return words._("%(missed)s of %(total)s", missed=words.number(row.ko_missed), total=total)


AGREEMENT: Final = (
    Column("pairs", lambda w: w._("Pairs"), lambda w: w._("of those expected"), coverage),
    Column(
        "mean_abs_delta",
        lambda w: w._("Mean distance"),
        lambda w: w._("in points; less is better"),
        lambda row, w: w.number(row.mean_abs_delta, 2),
        _constant,
    ),
    Column("skill", lambda w: w._("Skill"), lambda w: w._("against the best constant; 1 is perfect"), _skill),
    Column("qwk", lambda w: w._("Kappa"), lambda w: w._("quadratic, with its interval"), _kappa, _certainty),
    Column(
        "bias",
        lambda w: w._("Bias"),
        lambda w: w._("− stricter, + milder"),
        lambda row, w: w.signed(row.bias),
    ),
    Column("ko_missed", lambda w: w._("Knock-outs missed"), lambda w: w._("of the reference's"), _missed),
)
REASONS: Final = (
    Column(
        "names_improvement_rate",
        lambda w: w._("Names the improvement"),
        lambda w: w._("below a score of 5"),
        _rate("names_improvement_rate"),
    ),
    Column("cites_evidence_rate", lambda w: w._("Cites evidence"), lambda w: "", _rate("cites_evidence_rate")),
    Column("justifies_level_rate", lambda w: w._("Justifies the level"), lambda w: "", _rate("justifies_level_rate")),
    Column("catches_safety_rate", lambda w: w._("Sees safety"), lambda w: "", _rate("catches_safety_rate")),
)


def _group(
    site: Site,
    part: Part,
    place: int,
    heads: dict[PackKey, dict[str, Any]],
    bundles: Mapping[str, BundleView],
    words: Words,
) -> dict[str, Any]:
    group = part.group
    rows = group.rows[part.start : part.stop]
    comparisons = faced(group, bundles)
    return {
        "pack": group.pack,
        "head": _head(group, heads, words),
        "reference": group.reference,
        "continued": part.start > 0,
        "outdated": any(row.pairs is None for row in group.rows),
        "won": any(group.winners.values()),
        "advice": advice(group, comparisons, words),
        "faced": [faced_words(each, group.rows, words) for each in comparisons] if part.start == 0 else [],
        "plot": bias_plot(rows, bundles, f"bias-{place}", words) if group.pack is not None else None,
        "judges": [_judge(site, row, bundles, words) for row in rows],
        "tables": [
            _table(words._("Agreement with the reference"), AGREEMENT, rows, group, words),
            _table(words._("Quality of the reasons"), REASONS, rows, group, words),
        ],
    }


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[JudgeQualityRow], group: PackGroup, words: Words
) -> dict[str, Any]:
    """Some of the metrics: all of them side by side would leave no room for the judges' names."""
    return {
        "title": title,
        "columns": [(column.label(words), column.hint(words)) for column in columns],
        "rows": [[_cell(column, row, group, words) for column in columns] for row in rows],
    }


def _judge(site: Site, row: JudgeQualityRow, bundles: Mapping[str, BundleView], words: Words) -> dict[str, Any]:
    """What stands at the head of a judge's rows."""
    bundle = bundles[row.bundle]
    notes = [doubt(row, words)]
    if row.judge_model in {cell.model for cell in bundle.keys.cells}:
        notes.append(words._("is itself among the judged models"))
    return {
        "judge": row.judge_model,
        "bundle": row.bundle,
        "link": Link(site.home(bundle) + "judge-quality/index.html"),
        "notes": [note for note in notes if note],
    }


def _head(group: PackGroup, heads: dict[PackKey, dict[str, Any]], words: Words) -> dict[str, Any]:
    """How the group's pack is called; a pack that no run here holds goes by its id."""
    if group.pack is None:
        title = words._("Pack unknown: made by an older version, ingest again")
        return {"title": title, "lang": None, "sha": None, "home": None}
    known = heads.get((group.pack, group.pack_sha))
    sha = group.pack_sha[:8] if group.pack_sha else None
    return known or {"title": words._("Pack %(id)s", id=group.pack), "lang": None, "sha": sha, "home": None}


def _cell(column: Column, row: JudgeQualityRow, group: PackGroup, words: Words) -> dict[str, Any]:
    return {
        "label": column.label(words),
        "text": column.text(row, words),
        "note": column.note(row, words),
        "won": group.winners.get(column.metric) == row.key,
    }


# -- on the same answers


def _shared(site: Site, heads: dict[PackKey, dict[str, Any]], words: Words) -> list[dict[str, Any]]:
    """Answers that more than one judge scored, with what each made of them."""
    names = eval_names(site.bundles)
    families: dict[tuple[PackKey, str], list[BundleView]] = {}
    for bundle in site.bundles:
        if bundle.judge.done:
            pack: PackKey = (bundle.pack_id, bundle.pack_sha if bundle.pack_id else None)
            families.setdefault((pack, names[bundle.name]), []).append(bundle)
    return [
        {
            "head": heads[pack],
            "run": name,
            "finding": _apart(bundles, words),
            "rows": [_judging(site, bundle) for bundle in sorted(bundles, key=lambda each: each.name)],
        }
        for (pack, name), bundles in families.items()
        if len({bundle.judge_model for bundle in bundles}) > 1
    ]


def _apart(bundles: list[BundleView], words: Words) -> str:
    """How far the mildest and the strictest judge are apart, in a sentence."""
    means = sorted(
        (mean, bundle.judge_model or UNKNOWN) for bundle in bundles if (mean := bundle.judge.tally.mean) is not None
    )
    if len(means) < 2:
        return words._("Fewer than two judges have given scores.")
    (low, strict), (high, mild) = means[0], means[-1]
    shown = words.number(low, 2), words.number(high, 2)
    if shown[0] == shown[1]:
        return words._("On average all judges give %(mean)s.", mean=shown[0])
    return words._(
        "%(mild)s is the mildest judge with %(high)s on average, %(strict)s the strictest with %(low)s.",
        mild=mild,
        high=shown[1],
        strict=strict,
        low=shown[0],
    )


def _judging(site: Site, bundle: BundleView) -> dict[str, Any]:
    tally = bundle.judge.tally
    return {
        "judge": bundle.judge_model,
        "done": tally.done,
        "total": bundle.judge.total,
        "mean": tally.mean,
        "shares": [count / tally.scored if tally.scored else None for count in tally.histogram[1:6]],
        "red_flags": tally.red_flags,
        "unscored": tally.unscored,
        "link": Link(site.home(bundle) + "judge/index.html"),
        "run": bundle.name,
    }
