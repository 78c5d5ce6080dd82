"""The judge monitor: how far the judging is, how the scores fall, what was flagged. Live and final are one page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from touchstone.contracts.lines import Cell
from touchstone.i18n import Words
from touchstone.judge_events import TEMPLATE, JudgeFold, Tally
from touchstone.pages.common import Link, frame, prompt_titles, safety_phrase, verdict_link, verdict_rows
from touchstone.pages.consistency import consistency_words
from touchstone.pages.dumbbell import dumbbell
from touchstone.pages.verdicts import page_count
from touchstone.site import Page, Site
from touchstone.view import BundleView

FLAGS_SHOWN: Final = 12
BAR_HEIGHT: Final = 132.0


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        yield from grown(site, bundle)


def grown(site: Site, bundle: BundleView) -> Iterator[Page]:
    yield Page(
        f"{site.home(bundle)}judge/index.html",
        TEMPLATE,
        partial(_context, site, bundle),
        inputs=site.inputs(bundle),
    )


def _context(site: Site, bundle: BundleView, words: Words) -> Mapping[str, Any]:
    judge = bundle.judge
    path = f"{site.home(bundle)}judge/"
    titles = prompt_titles(bundle)
    pages = page_count(bundle)
    return {
        **frame(site, bundle, words, "judge"),
        "lead": lead(judge, words),
        "judge": judge,
        "pace": None if not judge.gap_s else 60 / judge.gap_s,
        "flags": [_flag(site, bundle, number, titles) for number in islice(flagged_only(bundle), FLAGS_SHOWN)],
        "histogram": histogram(judge.tally, words),
        "dumbbell": dumbbell(bundle, words),
        "rows": verdict_rows(site, bundle, judge.newest(), here=path + "index.html"),
        "first_page": Link(path + "verdicts-1.html") if pages else None,
        "last_page": Link(f"{path}verdicts-{pages}.html") if pages > 1 else None,
        "flagged_page": Link(path + "flagged-1.html") if judge.tally.flagged or judge.tally.unscored else None,
        "masters": _masters(bundle, words),
        "consistency": consistency_words(bundle.consistency, words),
    }


def lead(judge: JudgeFold, words: Words) -> str:
    """How far it is, and how it ended."""
    done, total = judge.done, judge.total
    if not total:
        return words._("There is nothing to judge in this run yet.")
    if not done and not judge.started:
        return words._("Nobody has judged this run yet. The next step is touchstone judge.")
    if done >= total:
        return words.n_("The one verdict is in.", "All %(n)s verdicts are in.", done)
    counted = words._("%(done)s of %(total)s verdicts are in.", done=words.number(done), total=words.number(total))
    return f"{counted} {_state(judge, words)}".rstrip()


def _state(judge: JudgeFold, words: Words) -> str:
    if judge.aborted:
        return words._("The judging stopped early; touchstone judge goes on from here.")
    if not judge.started:
        return words._("No record says whether the judge is still running.")
    if not judge.done or judge.last_ts is None:
        return words._("No end is recorded.")
    ended = words._("No end is recorded; the last verdict came at %(moment)s.", moment=words.moment(judge.last_ts))
    if judge.eta_s is None:
        return ended
    return f"{ended} " + words._("At this pace the rest takes about %(span)s.", span=words.span(judge.eta_s))


def flagged_only(bundle: BundleView) -> Iterator[int]:
    """Numbers of keys with a red flag, in page order."""
    if not bundle.judge.tally.flagged:
        return iter(())
    return (n for n in bundle.judge.noted() if (seen := bundle.judge.seen(n)) is not None and seen.flag == 1)


def _flag(site: Site, bundle: BundleView, number: int, titles: dict[str, str]) -> dict[str, Any]:
    key = bundle.keys.key(number)
    return {"key": key, "title": titles.get(key.prompt_id), "link": verdict_link(site, bundle, number)}


def histogram(tally: Tally, words: Words) -> dict[str, Any]:
    """Bars over the scores 1..5, and a title that says what they show."""
    counts = tally.histogram[1:6]
    most = max(counts) or 1
    return {
        "title": _finding(tally, words),
        "bars": [
            {
                "score": score,
                "count": count,
                "share": count / tally.scored if tally.scored else None,
                "x": 8 + 86 * (score - 1),
                "height": round(BAR_HEIGHT * count / most, 1),
                "y": round(164 - BAR_HEIGHT * count / most, 1),
            }
            for score, count in enumerate(counts, 1)
        ],
        "unscored": tally.unscored,
    }


def _finding(tally: Tally, words: Words) -> str:
    """What the distribution says: true for one bar, none, and ten thousand verdicts."""
    counts = tally.histogram[1:6]
    if not tally.scored:
        return words._("No scores yet")
    used = [score for score, count in enumerate(counts, 1) if count]
    if len(used) == 1:
        if tally.scored == 1:
            return words._("The only score is a %(score)s", score=used[0])
        return words._("Every score is a %(score)s", score=used[0])
    low, high = sum(counts[:2]), sum(counts[3:])
    if 2 * high > tally.scored:
        return words._("Most answers score 4 or 5")
    if 2 * low > tally.scored:
        return words._("Most answers score 1 or 2")
    if 2 * counts[2] > tally.scored:
        return words._("Most answers score 3")
    return words._("The scores are spread from %(low)s to %(high)s", low=used[0], high=used[-1])


def _masters(bundle: BundleView, words: Words) -> list[dict[str, Any]]:
    """The scorecard preview: as the judge's run wrote it, else as it follows from what is there."""
    # The reason as the judge's run wrote it is a wire value; where it still holds, the page has words for it.
    pack = bundle.pack
    phrases = {} if pack is None else {row.cell: safety_phrase(row, pack, words) for row in bundle.rows}
    said = {(row.cell, row.safety.reason): phrases[row.cell] for row in bundle.rows}
    if bundle.judge.masters:
        return [
            {
                "model": master.model,
                "variant": master.variant,
                "recommendation": master.recommendation,
                "pct": master.pct,
                "passed": master.safety_passed,
                "safety": said.get(
                    (Cell(master.model, master.variant), master.safety_reason), master.safety_reason or ""
                ),
            }
            for master in bundle.judge.masters.values()
        ]
    return [
        {
            "model": row.cell.model,
            "variant": row.cell.variant,
            "recommendation": row.recommendation,
            "pct": row.weighted.pct,
            "passed": row.safety.passed,
            "safety": phrases[row.cell],
        }
        for row in bundle.rows
        if bundle.judge.done
    ]
