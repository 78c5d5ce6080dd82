"""One bundle, added up: what every page, every command and the scorecard look at. Pure.

A view holds figures, not texts: the texts of a million verdicts stay on disk, and a page asks its `source` for the few
that it shows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Protocol

from touchstone.contracts.lines import Answer, Cell, Report, Verdict
from touchstone.contracts.manifest import Manifest
from touchstone.contracts.pack import Pack
from touchstone.events import EvalFold
from touchstone.judge_events import UNSCORED, JudgeFold, VerdictEvent
from touchstone.keys import KeyIndex
from touchstone.load import LoadFold
from touchstone.scorecard import CellFacts, MasterRow, master_row, ranked
from touchstone.self_consistency import Consistency
from touchstone.slugs import hash64

KEPT_PROBLEMS: Final = 50
"""How many broken lines of a file are described; the others are counted."""


@dataclass(slots=True)
class Problems:
    """What could not be read of one file: how many lines, and the first of them with place and reason."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    """(1-based line, reason)."""

    def add(self, line: int, reason: str) -> None:
        self.count += 1
        if len(self.first) < KEPT_PROBLEMS:
            self.first.append((line, reason))


class Source(Protocol):
    """Where the texts are. None: the line is gone or changed since it was counted."""

    def answer(self, number: int) -> Answer | None:
        """The answer to key `number`."""

    def verdict(self, number: int) -> Verdict | VerdictEvent | None:
        """The verdict on key `number`: the full one, else its event."""

    def answers(self, numbers: Sequence[int]) -> list[Answer | None]:
        """The answers to these keys; cheaper than one by one."""

    def verdicts(self, numbers: Sequence[int]) -> list[Verdict | VerdictEvent | None]:
        """The verdicts on these keys; cheaper than one by one."""


@dataclass(frozen=True)
class BundleView:
    """One bundle at one moment."""

    name: str
    """Relative to the runs folder; what people call the bundle."""
    manifest: Manifest | None
    pack: Pack | None
    pack_sha: str | None
    keys: KeyIndex
    eval: EvalFold
    judge: JudgeFold
    reports: dict[Cell, Report]
    """The winning (last) report of each cell."""
    problems: dict[str, Problems]
    """File name to what could not be read of it; files without problems are absent."""
    notes: tuple[str, ...]
    """What else is odd about the bundle (no pack.yaml, another sha, links), in English, for check and stderr."""
    quality_md: str | None
    """judge_quality.md as it stands, None if there is none."""
    scorecard_md: str | None
    source: Source
    load: LoadFold = field(default_factory=LoadFold)
    consistency: Consistency | None = None
    """How much the judge agrees with itself; None: nothing was judged again."""
    revision: str = ""
    """Changes whenever anything that was read of the bundle changes; equal revisions make equal pages."""
    documents: str = ""
    """Changes whenever one of the bundle's small files (bundle.yaml, pack.yaml, Markdown) does."""
    whole: BundleView | None = None
    """The view that this one was withheld from; None: nothing is."""
    shows_answers: bool = True
    """Whether there are pages with the answers to lead to."""
    made_rows: dict[Cell, tuple[tuple[Any, ...], MasterRow]] = field(default_factory=dict, compare=False, repr=False)
    """The scorecard's lines as they were made last, with what from; views of one bundle share it."""
    touched: frozenset[int] | None = None
    """Numbers of the keys that lines came for since the view before; None: any may have changed."""

    @property
    def pack_id(self) -> str | None:
        """From the pack, else from bundle.yaml."""
        if self.pack is not None:
            return self.pack.id
        return None if self.manifest is None or self.manifest.pack is None else self.manifest.pack.id

    @property
    def judge_model(self) -> str | None:
        """Who judged, as the verdicts, the events or the reports say; None if nobody did or nobody says."""
        reported = next((report.judge_model for report in self.reports.values() if report.judge_model), None)
        return self.judge.full_judge_model or self.judge.judge_model or reported

    @property
    def judged(self) -> bool:
        return self.judge.done > 0 or bool(self.reports)

    @cached_property
    def flagged(self) -> dict[Cell, tuple[str, ...]]:
        """Cell to the ids of its prompts with a red flag, in page order, each once."""
        found: dict[Cell, dict[str, None]] = {}
        if self.judge.tally.flagged:
            for number in self.judge.noted():
                seen = self.judge.seen(number)
                if seen is not None and seen.flag == 1:
                    key = self.keys.key(number)
                    found.setdefault(Cell(key.model, key.variant), {})[key.prompt_id] = None
        return {cell: tuple(prompts) for cell, prompts in found.items()}

    def marks(self, numbers: Iterable[int], *, answers: bool = False) -> str:
        """Stands for the verdicts (with `answers`: the answers too) on these keys: while it stays, so do their rows."""
        slot, verdict, answer = self.keys.slot, self.judge.digest, self.eval.digest
        rows = [(slot(number), verdict(number), answer(number) if answers else 0) for number in numbers]
        return hash64(repr(rows))

    @cached_property
    def cells(self) -> tuple[CellFacts, ...]:
        """Facts of every cell: in the order of bundle.yaml, then by name."""
        answers = self.eval.answers_per_cell()
        numbers = {cell: number for number, cell in enumerate(self.keys.cells)}
        facts = []
        for cell in self._cell_order():
            number = numbers.get(cell, -1)
            tally = self.judge.cell_tally(number)
            facts.append(
                CellFacts(cell, tally, self.flagged.get(cell, ()), answers.get(number, 0), self.reports.get(cell))
            )
        return tuple(facts)

    def _cell_order(self) -> list[Cell]:
        manifest = self.manifest
        present = {*self.keys.cells, *self.reports}
        listed = [] if manifest is None else [Cell(m, v) for m in manifest.models for v in manifest.variants]
        known = dict.fromkeys(cell for cell in listed if cell in present)
        return [*known, *sorted(present - known.keys())]

    @cached_property
    def rows(self) -> tuple[MasterRow, ...]:
        """The scorecard, best cell first; empty without a pack."""
        pack = self.pack
        return () if pack is None else tuple(ranked([self._row(pack, facts) for facts in self.cells]))

    def _row(self, pack: Pack, facts: CellFacts) -> MasterRow:
        """Of a growing run, most cells are as they were in the view before."""
        tally = facts.tally
        made_from = (
            pack,
            facts.report,
            facts.expected,
            facts.flagged,
            *tally.histogram,
            tally.flagged,
            tally.flag_unknown,
        )
        known = self.made_rows.get(facts.cell)
        if known is not None and all(
            one is other or one == other for one, other in zip(known[0], made_from, strict=True)
        ):
            return replace(known[1], tally=tally)
        row = master_row(pack, facts)
        self.made_rows[facts.cell] = made_from, row
        return row

    @property
    def broken_lines(self) -> int:
        return sum(problems.count for problems in self.problems.values())

    @cached_property
    def inputs_sha(self) -> str:
        """What the scorecard and judge_quality.md were made from, as one sha256 (hex)."""
        if self.whole is not None:
            return self.whole.inputs_sha
        return inputs_sha(self.pack_sha, self._winning_verdicts(), self.reports)

    def _winning_verdicts(self) -> Iterable[tuple[Any, ...]]:
        flags = (False, True, None)
        for number in range(len(self.keys)):
            seen = self.judge.seen(number)
            if seen is not None:
                unscored = seen.mark == UNSCORED
                yield (*self.keys.key(number), 0 if unscored else seen.mark, flags[seen.flag], unscored)


def inputs_sha(pack_sha: str | None, verdicts: Iterable[tuple[Any, ...]], reports: dict[Cell, Report]) -> str:
    """sha256 over canonical JSON of the pack's sha, the winning verdicts and the winning reports; no times in it."""
    content = {
        "pack": pack_sha,
        "verdicts": sorted(verdicts, key=lambda row: row[:4]),
        "reports": [reports[cell].model_dump(exclude={"ts"}) for cell in sorted(reports)],
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
