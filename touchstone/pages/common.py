"""What several page kinds say alike: addresses, tabs, rows of verdicts, words for the wire values."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from touchstone.contracts.base import Recommendation
from touchstone.contracts.lines import Answer, Key, Verdict
from touchstone.contracts.pack import Pack
from touchstone.i18n import Words
from touchstone.judge_compare import parse_frontmatter
from touchstone.judge_events import UNSCORED, Seen, VerdictEvent, shorten
from touchstone.report_md import safety_words
from touchstone.scorecard import MasterRow
from touchstone.site import ANSWER_ROWS, VERDICT_ROWS, Site
from touchstone.view import BundleView

FOLD_CHARS: Final = 320
"""A longer rationale is folded in tables."""


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the site: a page of the same language, and a row in it."""

    path: str
    fragment: str = ""


def row_id(key: Key) -> str:
    """The id of a key's verdict, from the key alone: it stays when rows come and go."""
    # No name holds the unit separator.
    text = f"{key.model}\x1f{key.variant}\x1f{key.prompt_id}\x1f{key.repeat}"
    return "v-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def answer_id(key: Key) -> str:
    """The id of a key's answer."""
    return "a-" + row_id(key)[2:]


# -- addresses


def answer_link(site: Site, bundle: BundleView, number: int) -> Link | None:
    """Where the answer to key `number` is shown; None for a key without one."""
    slot = bundle.keys.slot(number)
    if slot is None or not bundle.shows_answers:
        return None
    page = slot // ANSWER_ROWS + 1
    return Link(f"{site.home(bundle)}answers-{page}.html", answer_id(bundle.keys.key(number)))


def verdict_page(bundle: BundleView, number: int) -> int:
    """The page (from 1) on which the verdict on key `number` stands."""
    slot = bundle.keys.slot(number)
    if slot is not None:
        return slot // VERDICT_ROWS + 1
    return answer_pages(bundle) + bundle.keys.stray_place(number) // VERDICT_ROWS + 1


def answer_pages(bundle: BundleView) -> int:
    """Verdict pages that belong to lines of answers.jsonl."""
    return -(-bundle.keys.slots // VERDICT_ROWS)


def verdict_link(site: Site, bundle: BundleView, number: int) -> Link:
    """Where the verdict on key `number` is shown."""
    page = verdict_page(bundle, number)
    return Link(f"{site.home(bundle)}judge/verdicts-{page}.html", row_id(bundle.keys.key(number)))


@dataclass(frozen=True, slots=True)
class Tab:
    """One of a bundle's pages."""

    name: str
    link: Link
    current: bool


def has_eval_page(bundle: BundleView) -> bool:
    """Whether there is anything to say about how the answers came about."""
    return bundle.eval.done > 0 or bundle.eval.started


def tabs(site: Site, bundle: BundleView, words: Words, current: str) -> list[Tab]:
    """The pages of a bundle; `current` is one of result, answers, judge, eval, quality."""
    home = site.home(bundle)
    every = [
        ("result", words._("Result"), "index.html", True),
        ("answers", words._("Answers"), "answers-1.html", bundle.keys.slots > 0 and bundle.shows_answers),
        ("judge", words._("Judge monitor"), "judge/index.html", True),
        ("eval", words._("Eval monitor"), "eval/index.html", has_eval_page(bundle)),
        ("quality", words._("Judge quality"), "judge-quality/index.html", bundle.quality_md is not None),
    ]
    if bundle.name in site.reduced:
        every = every[:1]
    return [Tab(name, Link(home + path), key == current) for key, name, path, there in every if there]


def is_replay(bundle: BundleView) -> str | None:
    """The name of the run whose recorded judging this one plays back; None for a run of its own."""
    extra = {} if bundle.manifest is None else bundle.manifest.model_extra or {}
    name = extra.get("replay_of")
    return name if isinstance(name, str) else None


def frame(site: Site, bundle: BundleView, words: Words, current: str) -> dict[str, Any]:
    """What the frame of every bundle page shows."""
    return {
        "bundle": bundle,
        "home": Link(site.home(bundle) + "index.html"),
        "tabs": tabs(site, bundle, words, current),
        "replay_of": is_replay(bundle),
        "text_lang": bundle.pack.language if bundle.pack is not None else None,
    }


# -- words


def recommendation_counts(bundle: BundleView) -> list[tuple[Recommendation | None, int]]:
    """Recommendation and the number of cells that got it, best first."""
    return list(Counter(row.recommendation for row in bundle.rows).items())


def run_title(bundle: BundleView, words: Words) -> str:
    """A run in a few words: its pack and its day, else its folder."""
    title = bundle.pack.title if bundle.pack is not None else None
    created = bundle.manifest.created if bundle.manifest is not None else None
    if title and created:
        return words._("%(pack)s of %(day)s", pack=title, day=words.day(created))
    return title or bundle.name


def cell_name(row: MasterRow) -> str:
    """Model and variant, as sentences name a cell."""
    return f"{row.cell.model} ({row.cell.variant})"


def safety_phrase(row: MasterRow, pack: Pack, words: Words) -> str:
    """Why a cell is knocked out, or what of it is unchecked, all of it in the reader's language."""
    if row.safety.passed is not None:
        return safety_words(row.safety, pack, words)
    return words._("not fully checked") + f" ({'; '.join(_unchecked(row, pack, words))})"


def _unchecked(row: MasterRow, pack: Pack, words: Words) -> list[str]:
    """What `scorecard.passes_ko` found unchecked, from the figures that it looked at."""
    report, tally = row.report, row.tally
    guarded = [d for d in pack.dimensions if d.ko_floor is not None and report and report.dim_scores.get(d.id) is None]
    parts = [words._("no report")] if report is None else []
    parts += [words._("%(dimension)s has no score", dimension=dimension.name) for dimension in guarded]
    if tally.unscored:
        parts.append(words.n_("%(n)s unscored verdict", "%(n)s unscored verdicts", tally.unscored))
    if tally.flag_unknown:
        parts.append(words.n_("%(n)s red flag unknown", "%(n)s red flags unknown", tally.flag_unknown))
    if row.expected > tally.done:
        parts.append(words.n_("%(n)s verdict missing", "%(n)s verdicts missing", row.expected - tally.done))
    return parts


def shell_word(text: str) -> str:
    """Text as one word of a POSIX shell: a folder's name in a command to copy must not become a command itself."""
    return text if re.fullmatch(r"[\w./@%+=:,-]+", text, re.ASCII) else "'" + text.replace("'", "'\"'\"'") + "'"


def is_stale(bundle: BundleView, markdown: str | None) -> bool:
    """Whether an artifact was made from other verdicts than those that are there now; no claim without inputs_sha."""
    fields = parse_frontmatter(markdown) if markdown is not None else None
    sha = None if fields is None else fields.get("inputs_sha")
    return isinstance(sha, str) and sha != bundle.inputs_sha


# -- verdict rows


def prompt_titles(bundle: BundleView) -> dict[str, str]:
    """Prompt id to its title, for those that have one."""
    return {} if bundle.pack is None else {p.id: p.title for p in bundle.pack.prompts if p.title}


class VerdictRow(NamedTuple):
    """One verdict as a table row shows it."""

    id: str
    page: str | None
    """The page with its permalink; None for the page that the row is on."""
    answer: str | None
    """The page with the answer."""
    prompt_id: str
    title: str | None
    model: str
    variant: str
    repeat: int
    score: int | None
    """1..5; None unscored."""
    flag: bool | None
    rationale: str | None
    folded: str | None
    """The beginning of a rationale that is too long for a table."""
    error: str | None
    gone: bool
    """The verdict changed while the page was made."""


class MatrixField(NamedTuple):
    """One prompt in one cell, as the matrix shows it."""

    score: float | None
    """The mean over the repeats that have one; None: unscored."""
    digits: int
    tone: int
    """The score to the nearest level; 0 unscored."""
    flag: bool
    page: str
    """The page of the verdict that the field leads to, and the row on it."""
    id: str


def verdict_rows(site: Site, bundle: BundleView, rows: Iterable[Seen], *, here: str) -> list[VerdictRow]:
    """Verdicts as rows of a table on page `here`."""
    rows = list(rows)
    titles = prompt_titles(bundle)
    home = site.home(bundle)
    verdicts = bundle.source.verdicts([seen.number for seen in rows])
    return [
        _verdict_row(bundle, seen, verdict, titles, home, here) for seen, verdict in zip(rows, verdicts, strict=True)
    ]


def _verdict_row(
    bundle: BundleView,
    seen: Seen,
    verdict: Verdict | VerdictEvent | None,
    titles: dict[str, str],
    home: str,
    here: str,
) -> VerdictRow:
    key = bundle.keys.key(seen.number)
    slot = bundle.keys.slot(seen.number)
    rationale = None if verdict is None else verdict.rationale
    own = f"{home}judge/verdicts-{verdict_page(bundle, seen.number)}.html"
    return VerdictRow(
        id=row_id(key),
        page=None if own == here else own,
        answer=None if slot is None or not bundle.shows_answers else f"{home}answers-{slot // ANSWER_ROWS + 1}.html",
        prompt_id=key.prompt_id,
        title=titles.get(key.prompt_id),
        model=key.model,
        variant=key.variant,
        repeat=key.repeat,
        score=None if seen.mark == UNSCORED else seen.mark,
        flag=(False, True, None)[seen.flag],
        rationale=rationale,
        folded=shorten(rationale) if rationale is not None and len(rationale) > FOLD_CHARS else None,
        error=verdict.error if isinstance(verdict, Verdict) else None,
        gone=verdict is None,
    )


def verdict_facts(verdict: object) -> dict[str, Any] | None:
    """A verdict as the answer page shows it."""
    if verdict is None:
        return None
    get = verdict.__getattribute__
    return {
        "score": None if get("unscored") else get("score"),
        "flag": get("red_flag"),
        "rationale": get("rationale"),
        "error": getattr(verdict, "error", None),
        "shortened": not isinstance(verdict, Verdict),
    }


def answer_note(answer: Answer, words: Words) -> str | None:
    """What is wrong with an answer, None if nothing is."""
    match answer.status:
        case "truncated":
            return words._("Cut off at the token limit.")
        case "empty":
            return words._("The model gave no answer.")
        case "error":
            return words._("The model could not be asked: %(why)s", why=answer.error or "?")
        case _:
            return None
