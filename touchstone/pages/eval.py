"""The eval monitor: how the answers came about, how fast each model was, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.events import TEMPLATE, EvalFold, ModelSpeed
from touchstone.i18n import Words
from touchstone.pages import load
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
            inputs=site.inputs(
                bundle,
                "eval",
                run.sum,
                run.started,
                run.ended,
                run.announced,
                run.last_ts,
                run.gap_s,
                bundle.load.figures,
            ),
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
        "peak_ram": peak_ram(bundle),
        "charts": [found for found in (latency_chart(speeds, words), rate_chart(speeds, words)) if found is not None],
        "load": load.panel(bundle.load, words),
        "failures": failures,
        "failures_left": errors - len(failures),
        "setting": _setting(bundle, words),
    }


def peak_ram(bundle: BundleView) -> float | None:
    """As bundle.yaml says, which the run notes at its end; until then as far as it was recorded."""
    noted = None if bundle.manifest is None else bundle.manifest.peak_ram_bytes
    return bundle.load.peak if noted is None else noted


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
        ended = words._("No end is recorded; the last answer came at %(moment)s.", moment=words.moment(fold.last_ts))
        if fold.gap_s is None or fold.done >= total:
            return ended
        span = words.span(fold.gap_s * (total - fold.done))
        return f"{ended} " + words._("At this pace the rest takes about %(span)s.", span=span)
    if fold.done < total:
        return words._("This run recorded no events, so nothing says whether it is still going on.")
    return ""


# -- speed


def latency_chart(speeds: list[ModelSpeed], words: Words) -> dict[str, Any] | None:
    """Latency of the fastest models as bars, fastest first; None where nothing was measured."""
    measured = sorted(
        (speed for speed in speeds if speed.latency_p50 is not None),
        key=lambda speed: (speed.latency_p50 or 0.0, speed.model),
    )
    rows = [
        (speed.model, speed.latency_p50 or 0.0, speed.latency_p95 or 0.0, words.seconds(speed.latency_p50))
        for speed in measured
    ]
    described = [
        words._(
            "%(model)s: half within %(p50)s, 95 of 100 within %(p95)s",
            model=speed.model,
            p50=words.seconds(speed.latency_p50),
            p95=words.seconds(speed.latency_p95),
        )
        for speed in measured[:CHART_MODELS]
    ]
    sub = words._("Time for a whole answer. Dark: half of the answers took no longer. Pale: 95 of 100 took no longer.")
    label = words._("Latency of each model")
    return _bars("lat", finding(measured, words), sub, label, rows, described, words) if rows else None


def rate_chart(speeds: list[ModelSpeed], words: Words) -> dict[str, Any] | None:
    """Generated tokens per second of the fastest models as bars, fastest first; None where nothing was measured."""
    measured = sorted(
        (speed for speed in speeds if speed.gen_tps is not None),
        key=lambda speed: (-(speed.gen_tps or 0.0), speed.model),
    )
    rows = [(speed.model, speed.gen_tps or 0.0, 0.0, words.number(speed.gen_tps, 1)) for speed in measured]
    described = [f"{model}: {text}" for model, _, _, text in rows[:CHART_MODELS]]
    sub = words._("Generated tokens per second, the median of each model's answers.")
    label = words._("Generated tokens per second of each model")
    return _bars("rate", rate_finding(measured, words), sub, label, rows, described, words) if rows else None


def _bars(
    name: str,
    title: str,
    sub: str,
    label: str,
    rows: list[tuple[str, float, float, str]],
    described: list[str],
    words: Words,
) -> dict[str, Any]:
    """Rows of (model, length of the dark bar, of the pale one behind it or 0, the dark one's value in words)."""
    shown = rows[:CHART_MODELS]
    left = len(rows) - len(shown)
    if left:
        sub += " " + words.n_(
            "%(n)s slower model is in the table only.", "%(n)s slower models are in the table only.", left
        )
    most = max(max(dark, pale) for _, dark, pale, _ in shown) or 1.0
    return {
        "id": name,
        "title": title,
        "sub": sub,
        "label": label,
        "description": "; ".join(described),
        "width": CHART_WIDTH,
        "height": ROW_HEIGHT * len(shown),
        "bars": [_bar(*row, top=ROW_HEIGHT * index, most=most) for index, row in enumerate(shown)],
    }


def _bar(model: str, dark: float, pale: float, text: str, *, top: int, most: float) -> dict[str, Any]:
    width, width_pale = round(BAR_WIDTH * dark / most, 1), round(BAR_WIDTH * pale / most, 1)
    return {
        "label": model if len(model) <= LABEL_CHARS else model[: LABEL_CHARS - 1] + "…",
        "label_y": top + 14,
        "y": top + 21,
        "text_y": top + 34,
        "width": width,
        "width_pale": width_pale,
        "text_x": round(max(width, width_pale) + 8, 1),
        "text": text,
    }


def finding(measured: list[ModelSpeed], words: Words) -> str:
    """What the latency bars say, true for one model, for ties and for many; equal means equal as shown."""
    times = [words.seconds(speed.latency_p50) for speed in measured]
    if len(times) == 1:
        return words._("%(model)s takes %(time)s for half of its answers", model=measured[0].model, time=times[0])
    ties = times.count(times[0]) if times else 0
    if ties == len(times):
        return words._("All models are equally fast")
    if ties > 1:
        return words.n_("%(n)s model is the fastest", "%(n)s models are equally fast, ahead of the others", ties)
    return words._("%(model)s answers fastest: half within %(time)s", model=measured[0].model, time=times[0])


def rate_finding(measured: list[ModelSpeed], words: Words) -> str:
    """What the bars of tokens per second say; the same cases."""
    rates = [words.number(speed.gen_tps, 1) for speed in measured]
    if len(rates) == 1:
        return words._("%(model)s writes %(rate)s tokens per second", model=measured[0].model, rate=rates[0])
    ties = rates.count(rates[0]) if rates else 0
    if ties == len(rates):
        return words._("All models write equally fast")
    if ties > 1:
        return words._("%(n)s models write equally fast, ahead of the others", n=words.number(ties))
    return words._("%(model)s writes fastest: %(rate)s tokens per second", model=measured[0].model, rate=rates[0])


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
