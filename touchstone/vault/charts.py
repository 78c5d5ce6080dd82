"""Charts as SVG files: each with its own colours for light and dark, a title that says what it shows, no script. Pure.

Obsidian shows them as pictures, so they follow the light or dark setting of the system, and stand on a ground of their
own in case the vault's theme is the other one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from touchstone.i18n import Words
from touchstone.jsonsource import visible
from touchstone.judge_events import shorten
from touchstone.pages.common import cell_name
from touchstone.view import BundleView

MARK: Final = "<!-- Made by touchstone -->"
BARS: Final = 30
WIDTH: Final = 640
ROW: Final = 28
_LEFT: Final = 230
_RIGHT: Final = 64
_TOP: Final = 44
_STYLE: Final = """\
.g{fill:#fff}.t{fill:#1a211f}.s{fill:#5c6763}.b{fill:#2f7f88}.k{fill:#9f1f1a}.u{fill:#eceeea}.l{stroke:#7f8a86}
text{font:13px system-ui,sans-serif}.h{font-size:15px;font-weight:600}.n{text-anchor:end}
@media(prefers-color-scheme:dark){.g{fill:#191e1d}.t{fill:#e7ebe8}.s{fill:#9aa5a1}.b{fill:#46959e}.k{fill:#f59a90}
.u{fill:#222827}.l{stroke:#788480}}"""


def path_of(note: str, chart: str) -> str:
    """Where a chart of the note at path `note` lies."""
    return f"charts/{note.rpartition('/')[2].removesuffix('.md')} {chart}.svg"


def note_of(chart: str) -> str:
    """The path of the note that a chart belongs to."""
    return f"runs/{chart.rpartition('/')[2].rpartition(' ')[0]}.md"


def quality(bundle: BundleView, words: Words) -> str | None:
    """Quality of each cell, best first, with the pack's two thresholds; None where there is none."""
    rows = [row for row in bundle.rows if row.weighted.pct is not None]
    if not rows or bundle.pack is None:
        return None
    best = rows[0]
    first, pct = cell_name(best), words.pct(best.weighted.pct)
    title = words._("%(cell)s comes first with %(pct)s quality", cell=first, pct=pct)
    if len(rows) == 1 or best.safety.passed is False:
        title = words._("Quality of each model and variant")
    bars = [
        (
            f"{row.cell.model} · {row.cell.variant}",
            row.weighted.pct or 0.0,
            words._("K.O.") if row.safety.passed is False else words.pct(row.weighted.pct),
            "k" if row.safety.passed is False else "b",
        )
        for row in rows[:BARS]
    ]
    lines = (bundle.pack.thresholds.limited, bundle.pack.thresholds.recommend)
    hidden = len(rows) - len(bars)
    note = words._(
        "The lines: with reservations from %(limited)s, yes from %(yes)s.",
        limited=words.pct(lines[0]),
        yes=words.pct(lines[1]),
    )
    if hidden:
        note += " " + words.n_("%(n)s more is not drawn.", "%(n)s more are not drawn.", hidden)
    return _svg(title, bars, note, 100.0, lines)


def scores(bundle: BundleView, words: Words) -> str | None:
    """How often each score was given; None before there is one."""
    tally = bundle.judge.tally
    if not tally.scored:
        return None
    counts = tally.histogram[1:6]
    most = max(counts)
    modes = [score for score, count in enumerate(counts, 1) if count == most]
    title = words._("Verdicts by score")
    if len(modes) == 1:
        title = words._("The judge gives a %(score)s most often", score=modes[0])
    bars = [(str(score), float(counts[score - 1]), words.number(counts[score - 1]), "b") for score in range(5, 0, -1)]
    if tally.unscored:
        bars.append((words._("unscored"), float(tally.unscored), words.number(tally.unscored), "k"))
    note = words.n_("%(n)s verdict", "%(n)s verdicts", tally.done)
    return _svg(title, bars, note, max(bar[1] for bar in bars))


def _text(text: str, limit: int) -> str:
    return escape(visible(shorten(text, limit) or ""))


def _svg(
    title: str, bars: Sequence[tuple[str, float, str, str]], note: str, most: float, lines: Sequence[float] = ()
) -> str:
    height = _TOP + ROW * len(bars) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        MARK,
        f"<title>{_text(title, 200)}</title>",
        f"<desc>{_text('; '.join(f'{name}: {shown}' for name, _, shown, _ in bars), 2000)}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="g" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="t h" x="16" y="27">{_text(title, 72)}</text>',
        *_bars(bars, most),
        *(_line(value, most, len(bars)) for value in lines),
        f'<text class="s" x="16" y="{height - 12}">{_text(note, 90)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bars(bars: Sequence[tuple[str, float, str, str]], most: float) -> Iterator[str]:
    span = WIDTH - _LEFT - _RIGHT
    for place, (name, value, shown, kind) in enumerate(bars):
        y = _TOP + place * ROW
        length = span * value / most if most else 0.0
        yield f'<text class="t n" x="{_LEFT - 10}" y="{y + 18}">{_text(name, 30)}</text>'
        yield f'<rect class="u" x="{_LEFT}" y="{y + 6}" width="{span}" height="16" rx="2"/>'
        yield f'<rect class="{kind}" x="{_LEFT}" y="{y + 6}" width="{length:.1f}" height="16" rx="2"/>'
        yield f'<text class="t" x="{_LEFT + span + 8}" y="{y + 18}">{_text(shown, 12)}</text>'


def _line(value: float, most: float, count: int) -> str:
    x = _LEFT + (WIDTH - _LEFT - _RIGHT) * value / most
    return f'<path class="l" stroke-dasharray="3 3" d="M{x:.1f} {_TOP}V{_TOP + ROW * count}"/>'
