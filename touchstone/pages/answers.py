"""Each answer beside its verdict, its prompt and what a good answer would have held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from touchstone.contracts.lines import Answer, Verdict
from touchstone.i18n import Words
from touchstone.judge_events import VerdictEvent
from touchstone.pages.common import Link, answer_id, answer_note, frame, verdict_facts, verdict_link
from touchstone.site import ANSWER_ROWS, Page, Site, batches
from touchstone.view import BundleView

FOLD_ANSWER: Final = 4000
"""Characters; a longer answer is folded."""
SHOWN_ANSWER: Final = 100_000
"""Characters; what is longer is cut, and the page says so."""


def plan(site: Site) -> Iterator[Page]:
    for bundle in site.bundles:
        slots = bundle.keys.slots
        if not slots or not bundle.shows_answers:
            continue
        last = -(-slots // ANSWER_ROWS)
        for number, start, stop in batches(slots, ANSWER_ROWS):
            marks = bundle.marks(bundle.keys.at_slots(start, stop), answers=True)
            yield Page(
                f"{site.home(bundle)}answers-{number}.html",
                "answers.html",
                partial(_context, site, bundle, number, start, stop, last),
                inputs=site.inputs(bundle, "answers", number, number < last, marks),
            )


def _context(
    site: Site, bundle: BundleView, number: int, start: int, stop: int, last: int, words: Words
) -> Mapping[str, Any]:
    home = site.home(bundle)
    return {
        **frame(site, bundle, words, "answers"),
        "items": _items(site, bundle, list(bundle.keys.at_slots(start, stop)), words),
        "number": number,
        "previous": Link(f"{home}answers-{number - 1}.html") if number > 1 else None,
        "next": Link(f"{home}answers-{number + 1}.html") if number < last else None,
    }


def _items(site: Site, bundle: BundleView, numbers: list[int], words: Words) -> list[dict[str, Any]]:
    answers, verdicts = bundle.source.answers(numbers), bundle.source.verdicts(numbers)
    return [
        _item(site, bundle, number, answer, verdict, words)
        for number, answer, verdict in zip(numbers, answers, verdicts, strict=True)
    ]


def _item(
    site: Site,
    bundle: BundleView,
    number: int,
    answer: Answer | None,
    verdict: Verdict | VerdictEvent | None,
    words: Words,
) -> dict[str, Any]:
    key = bundle.keys.key(number)
    prompt = None if bundle.pack is None else bundle.pack.prompt(key.prompt_id)
    seen = bundle.judge.seen(number)
    return {
        "id": answer_id(key),
        "key": key,
        "prompt": prompt,
        "answer": None if answer is None else answer.answer[:SHOWN_ANSWER],
        "cut": answer is not None and len(answer.answer) > SHOWN_ANSWER,
        "folded": answer is not None and len(answer.answer) > FOLD_ANSWER,
        "reasoning": None if answer is None or not answer.reasoning else answer.reasoning[:SHOWN_ANSWER],
        "note": None if answer is None else answer_note(answer, words),
        "measures": [] if answer is None else _measures(answer, words),
        "verdict": None if seen is None else verdict_facts(verdict),
        "verdict_link": None if seen is None else verdict_link(site, bundle, number),
    }


def _measures(answer: Answer, words: Words) -> list[str]:
    metrics = answer.metrics
    if metrics is None:
        return []
    parts = []
    if metrics.total_s is not None:
        parts.append(words.seconds(metrics.total_s))
    if metrics.completion_tokens is not None:
        parts.append(words.n_("%(n)s token", "%(n)s tokens", metrics.completion_tokens))
    if metrics.gen_tps is not None:
        parts.append(words._("%(rate)s tokens/s", rate=words.number(metrics.gen_tps, 1)))
    return parts
