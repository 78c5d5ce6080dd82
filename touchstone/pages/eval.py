"""The eval monitor: how the answers came about, how fast each model was, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.events import EvalFold, ModelSpeed
from touchstone.i18n import Words
from touchstone.pages.common import answer_link, frame, has_eval_page, prompt_titles
from touchstone.site import Page, Site
from touchstone.view import BundleView

ERRORS_SHOWN: Final = 20
BAR_WIDTH: Final = 280.0


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        if has_eval_page(bundle):
            yield Page(f"{site.home(bundle)}eval/index.html", "eval.html", partial(_context, site, bundle))


def _context(site: Site, bundle: BundleView, words: Words) -> Mapping[str, Any]:
    speeds = bundle.eval.speeds()
    manifest = bundle.manifest
    return {
        **frame(site, bundle, words, "eval"),
        "lead": lead(bundle.eval, speeds, words),
        "fold": bundle.eval,
        "speeds": speeds,
        "counts": {name: sum(getattr(s, name) for s in speeds) for name in ("truncated", "empty", "errors")},
        "chart": _chart(speeds, words),
        "failures": _failures(site, bundle),
        "failures_left": max(0, sum(speed.errors for speed in speeds) - ERRORS_SHOWN),
        "host": manifest.host if manifest is not None else None,
        "peak_ram": manifest.peak_ram_bytes if manifest is not None else None,
    }


def lead(fold: EvalFold, speeds: list[ModelSpeed], words: Words) -> str:
    """How many answers there are, and how the run ended."""
    counted = (
        words.n_("The one answer is in.", "All %(n)s answers are in.", fold.done)
        if fold.done and fold.done >= fold.total
        else words._(
            "%(done)s of %(total)s answers are in.", done=words.number(fold.done), total=words.number(fold.total)
        )
    )
    failed = sum(speed.errors for speed in speeds)
    parts = [counted]
    if fold.aborted:
        parts.append(words._("The run stopped early; touchstone eval --resume goes on from here."))
    elif fold.started and not fold.finished and fold.done < fold.total:
        moment = words.moment(fold.last_ts)
        parts.append(words._("No end is recorded; the last answer came at %(moment)s.", moment=moment))
    if failed:
        parts.append(words.n_("%(n)s question failed.", "%(n)s questions failed.", failed))
    return " ".join(parts)


def _chart(speeds: list[ModelSpeed], words: Words) -> dict[str, Any] | None:
    """Latency of each model as bars; the title says which is the fastest."""
    measured = [speed for speed in speeds if speed.latency_p50 is not None]
    if not measured:
        return None
    most = max(speed.latency_p95 or speed.latency_p50 or 0 for speed in measured) or 1.0
    return {
        "title": _finding(measured, words),
        "height": 34 * len(measured) + 8,
        "bars": [
            {
                "model": speed.model,
                "y": 34 * index,
                "p50": speed.latency_p50,
                "p95": speed.latency_p95,
                "width50": round(BAR_WIDTH * (speed.latency_p50 or 0) / most, 1),
                "width95": round(BAR_WIDTH * (speed.latency_p95 or 0) / most, 1),
            }
            for index, speed in enumerate(measured)
        ],
    }


def _finding(measured: list[ModelSpeed], words: Words) -> str:
    ordered = sorted(measured, key=lambda speed: (speed.latency_p50 or 0, speed.model))
    first = ordered[0]
    time = words.seconds(first.latency_p50)
    if len(ordered) == 1:
        return words._("%(model)s takes %(time)s for an answer", model=first.model, time=time)
    if ordered[1].latency_p50 == first.latency_p50:
        return words._("Several models answer equally fast")
    return words._("%(model)s answers fastest, in %(time)s", model=first.model, time=time)


def _failures(site: Site, bundle: BundleView) -> list[dict[str, Any]]:
    titles = prompt_titles(bundle)
    found = []
    for number in bundle.keys.in_order():
        if bundle.eval.status(number) == "error":
            key = bundle.keys.key(number)
            answer = bundle.source.answer(number)
            found.append(
                {
                    "key": key,
                    "title": titles.get(key.prompt_id),
                    "error": None if answer is None else answer.error,
                    "link": answer_link(site, bundle, number),
                }
            )
            if len(found) == ERRORS_SHOWN:
                break
    return found
