"""The eval monitor: how the answers came about, how fast each model was, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.events import TEMPLATE, EvalFold, ModelSpeed
from touchstone.i18n import Words
from touchstone.pages.common import answer_link, frame, has_eval_page, prompt_titles
from touchstone.site import Page, Site
from touchstone.view import BundleView

ERRORS_SHOWN: Final = 20
ERROR_CHARS: Final = 500
CHART_MODELS: Final = 12
"""More bars than that are not readable; the table has all models."""
CHART_WIDTH: Final = 440
BAR_WIDTH: Final = 340.0
ROW_HEIGHT: Final = 46
LABEL_CHARS: Final = 44
MOST_ANSWERS: Final = 10**9
"""A bundle.yaml that asks for more is not believed."""


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        yield from grown(site, bundle)


def grown(site: Site, bundle: BundleView) -> Iterator[Page]:
    if has_eval_page(bundle):
        run = bundle.eval
        yield Page(
            f"{site.home(bundle)}eval/index.html",
            TEMPLATE,
            partial(_context, site, bundle),
            inputs=site.inputs(bundle, "eval", run.sum, run.started, run.ended, run.announced, run.last_ts),
        )


def _context(site: Site, bundle: BundleView, words: Words) -> Mapping[str, Any]:
    speeds = bundle.eval.speeds()
    errors = sum(speed.errors for speed in speeds)
    failures = _failures(site, bundle) if errors else []
    return {
        **frame(site, bundle, words, "eval"),
        "lead": lead(bundle, speeds, words),
        "done": bundle.eval.done,
        "total": expected(bundle),
        "speeds": speeds,
        "truncated": sum(speed.truncated for speed in speeds),
        "empty": sum(speed.empty for speed in speeds),
        "errors": errors,
        "peak_ram": bundle.manifest.peak_ram_bytes if bundle.manifest is not None else None,
        "chart": chart(speeds, words),
        "failures": failures,
        "failures_left": errors - len(failures),
        "setting": _setting(bundle, words),
    }


def expected(bundle: BundleView) -> int:
    """How many answers there are to be: as the run announced, else as bundle.yaml and the pack ask."""
    fold, manifest, pack = bundle.eval, bundle.manifest, bundle.pack
    if fold.announced is not None or manifest is None or pack is None:
        return fold.total
    asked = len(manifest.models) * len(manifest.variants) * (manifest.repeats or 1) * len(pack.prompts)
    return max(asked, fold.done) if asked <= MOST_ANSWERS else fold.total


def lead(bundle: BundleView, speeds: list[ModelSpeed], words: Words) -> str:
    """How many answers there are, how the run ended, and what failed."""
    fold, total = bundle.eval, expected(bundle)
    if fold.done and fold.done >= total:
        parts = [words.n_("The one answer is in.", "All %(n)s answers are in.", fold.done)]
    else:
        done, all_of_them = words.number(fold.done), words.number(total)
        parts = [words._("%(done)s of %(total)s answers are in.", done=done, total=all_of_them)]
    parts.append(_ending(fold, total, words))
    failed = sum(speed.errors for speed in speeds)
    if failed:
        parts.append(words.n_("%(n)s question failed.", "%(n)s questions failed.", failed))
    return " ".join(part for part in parts if part)


def _ending(fold: EvalFold, total: int, words: Words) -> str:
    """Finished, stopped early, or nobody knows: told apart by the event channel."""
    if fold.finished:
        if fold.done < total:
            return words._("The run stopped early; touchstone eval --resume goes on from here.")
        return words._("The run finished.")
    if fold.started:
        if fold.last_ts is None:
            return words._("No end is recorded.")
        return words._("No end is recorded; the last answer came at %(moment)s.", moment=words.moment(fold.last_ts))
    if fold.done < total:
        return words._("This run recorded no events, so nothing says whether it is still going on.")
    return ""


# -- speed


def chart(speeds: list[ModelSpeed], words: Words) -> dict[str, Any] | None:
    """Latency of the fastest models as bars, fastest first; None where nothing was measured."""
    measured = sorted(
        (speed for speed in speeds if speed.latency_p50 is not None),
        key=lambda speed: (speed.latency_p50 or 0.0, speed.model),
    )
    if not measured:
        return None
    shown = measured[:CHART_MODELS]
    most = max(max(speed.latency_p50 or 0.0, speed.latency_p95 or 0.0) for speed in shown) or 1.0
    return {
        "title": finding(measured, words),
        "width": CHART_WIDTH,
        "height": ROW_HEIGHT * len(shown),
        "left": len(measured) - len(shown),
        "bars": [_bar(speed, ROW_HEIGHT * index, most) for index, speed in enumerate(shown)],
    }


def _bar(speed: ModelSpeed, top: int, most: float) -> dict[str, Any]:
    name = speed.model
    width95 = round(BAR_WIDTH * (speed.latency_p95 or 0.0) / most, 1)
    return {
        "model": name,
        "label": name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…",
        "p50": speed.latency_p50,
        "p95": speed.latency_p95,
        "label_y": top + 14,
        "y": top + 21,
        "text_y": top + 34,
        "width50": round(BAR_WIDTH * (speed.latency_p50 or 0.0) / most, 1),
        "width95": width95,
        "text_x": round(width95 + 8, 1),
    }


def finding(measured: list[ModelSpeed], words: Words) -> str:
    """What the bars say, true for one model, for ties and for many; equal means equal as shown."""
    times = [words.seconds(speed.latency_p50) for speed in measured]
    if len(times) == 1:
        return words._("%(model)s takes %(time)s for half of its answers", model=measured[0].model, time=times[0])
    ties = times.count(times[0])
    if ties == len(times):
        return words._("All models are equally fast")
    if ties > 1:
        return words.n_("%(n)s model is the fastest", "%(n)s models are equally fast, ahead of the others", ties)
    return words._("%(model)s answers fastest: half within %(time)s", model=measured[0].model, time=times[0])


# -- what failed, and under what conditions


def _failures(site: Site, bundle: BundleView) -> list[dict[str, Any]]:
    """The first failed questions, in the order of the answers."""
    titles = prompt_titles(bundle)
    found: list[dict[str, Any]] = []
    for number in bundle.keys.in_order():
        if len(found) == ERRORS_SHOWN:
            break
        if bundle.eval.status(number) == "error":
            key = bundle.keys.key(number)
            answer = bundle.source.answer(number)
            error = answer.error if answer is not None else None
            found.append(
                {
                    "key": key,
                    "title": titles.get(key.prompt_id),
                    "error": None if error is None else error[:ERROR_CHARS],
                    "link": answer_link(site, bundle, number),
                }
            )
    return found


def _setting(bundle: BundleView, words: Words) -> list[tuple[str, str]]:
    """Machine and parameters, as bundle.yaml has them."""
    manifest = bundle.manifest
    if manifest is None:
        return []
    host = manifest.host
    machine = (
        []
        if host is None
        else [
            (words._("Processor"), host.cpu),
            (words._("Graphics"), host.gpu),
            (words._("System"), host.os),
            (words._("Memory"), None if host.ram_bytes is None else words.bytes(host.ram_bytes)),
        ]
    )
    run = [
        (words._("Made"), words.moment(manifest.created) if manifest.created else None),
        (words._("Endpoint"), manifest.endpoint),
        (words._("Repeats"), None if manifest.repeats is None else words.number(manifest.repeats)),
        (words._("Source"), manifest.source),
    ]
    params = [(name, _value(value)) for name, value in sorted((manifest.params or {}).items())]
    return [(name, value) for name, value in (*machine, *run, *params) if value]


def _value(value: Any) -> str:
    """A parameter as it was written; wire names and wire values are the same in every language."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return "" if value is None else str(value)[:ERROR_CHARS]
    except ValueError:
        # Python does not print integers of more than 4300 digits.
        return "?"
