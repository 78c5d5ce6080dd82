"""What is published is chosen: a bundle's view without what is to stay at home. Pure.

The choice is made in one place, on the view: what a page never gets to see, no page, table or search can give away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from touchstone.contracts.lines import Answer, Verdict
from touchstone.contracts.manifest import Manifest
from touchstone.contracts.pack import Pack
from touchstone.judge_compare import frontmatter_of
from touchstone.judge_events import VerdictEvent
from touchstone.load import LoadFold
from touchstone.view import BundleView, Source


@dataclass(frozen=True, slots=True)
class Publish:
    """What goes out."""

    answers: bool = True
    """What the models said, with the pages that show it beside the verdicts."""
    reasoning: bool = True
    """What the models thought before they answered."""
    rationales: bool = True
    """Why the judge scored as it did; it quotes the answers."""
    prompts: bool = True
    """The texts of prompts, references, red flags and system prompts; ids and titles always go out."""
    host: bool = True
    """The machine, its load and the endpoint."""

    def and_only(self, other: Publish) -> Publish:
        """What both let out."""
        return Publish(*(getattr(self, each.name) and getattr(other, each.name) for each in fields(self)))

    @property
    def everything(self) -> bool:
        return self == Publish()

    @property
    def sorted(self) -> tuple[list[str], list[str]]:
        """(what goes out, what does not), by name."""
        names = [each.name for each in fields(self)]
        return [n for n in names if getattr(self, n)], [n for n in names if not getattr(self, n)]


CAREFUL: Final = Publish(answers=False, reasoning=False, prompts=False, host=False)
"""What `--public` lets out at the most."""


class _Withheld:
    """A source that keeps texts back."""

    def __init__(self, source: Source, publish: Publish) -> None:
        self._source = source
        self._publish = publish

    def answer(self, number: int) -> Answer | None:
        return self.answers([number])[0]

    def verdict(self, number: int) -> Verdict | VerdictEvent | None:
        return self.verdicts([number])[0]

    def answers(self, numbers: Sequence[int]) -> list[Answer | None]:
        if not self._publish.answers:
            return [None for _ in numbers]
        answers = self._source.answers(numbers)
        if self._publish.reasoning:
            return answers
        return [None if each is None else each.model_copy(update={"reasoning": None}) for each in answers]

    def verdicts(self, numbers: Sequence[int]) -> list[Verdict | VerdictEvent | None]:
        verdicts = self._source.verdicts(numbers)
        if self._publish.rationales:
            return verdicts
        return [None if each is None else each.model_copy(update={"rationale": None}) for each in verdicts]


def withhold(view: BundleView, publish: Publish) -> BundleView:
    """The view without what is not to go out."""
    if publish.everything:
        return view
    reports, scorecard, quality = view.reports, view.scorecard_md, view.quality_md
    if not publish.rationales:
        silent: dict[str, Any] = {"dim_rationales": {}, "summary": None, "raw": None}
        reports = {cell: report.model_copy(update=silent) for cell, report in reports.items()}
        scorecard, quality = None, None if quality is None else frontmatter_of(quality)
    return replace(
        view,
        manifest=_manifest(view.manifest, publish),
        pack=_pack(view.pack, publish),
        reports=reports,
        scorecard_md=scorecard,
        quality_md=quality,
        load=view.load if publish.host else LoadFold(),
        source=_Withheld(view.source, publish),
        shows_answers=publish.answers,
        whole=view,
    )


def _manifest(manifest: Manifest | None, publish: Publish) -> Manifest | None:
    if manifest is None or publish.host:
        return manifest
    return manifest.model_copy(update={"host": None, "endpoint": None})


def _pack(pack: Pack | None, publish: Publish) -> Pack | None:
    if pack is None or publish.prompts:
        return pack
    blank = {"text": "", "reference": None, "red_flags": ()}
    prompts = tuple(prompt.model_copy(update=blank) for prompt in pack.prompts)
    variants = tuple(variant.model_copy(update={"system": ""}) for variant in pack.variants)
    return Pack.model_construct(
        **{**{name: getattr(pack, name) for name in Pack.model_fields}, "prompts": prompts, "variants": variants}
    )
