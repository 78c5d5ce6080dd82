"""Reads verdict logs, folds them, renders the same rows and pages as touchstone and writes them; nothing else.

    python -m benchmarks.floor.bundles RUNS OUT

No checks, no escaping of anything but texts, no templates, no languages, no state, one process. A later line of the
same key wins, so the log is read twice: once for the figures, once for the rows. Answers are rendered as Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from pathlib import Path

import msgspec
from markdown_it import MarkdownIt

ROWS = 250
CARDS = 24
PIPS = [
    '<svg class="pips" viewBox="0 0 45 12" aria-hidden="true" focusable="false">'
    + "".join(
        f'<rect{" class=on" if step < score else ""} x="{step * 9}" width="7" height="12" rx="1"/>' for step in range(5)
    )
    + "</svg>"
    for score in range(6)
]
HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{0}</title>'
    '<link rel="stylesheet" href="../../../assets/style.css"></head><body><main><h1>{0}</h1>'
)
FOOT = "</main></body></html>"
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


class Figures(msgspec.Struct):
    """What the fold looks at."""

    model: str
    variant: str
    prompt_id: str
    repeat: int
    score: int
    red_flag: bool | None = None
    unscored: bool | None = None


class Row(Figures):
    """What a row shows."""

    rationale: str | None = None
    error: str | None = None


class Answer(msgspec.Struct):
    """What a card shows."""

    model: str
    variant: str
    prompt_id: str
    repeat: int
    answer: str


def fold(path: Path) -> tuple[dict[int, int], list[list[int]], list[tuple[str, str]]]:
    """(key → line that wins, per cell counts by score and of flags, cells)."""
    cells: dict[tuple[str, str], int] = {}
    prompts: dict[str, int] = {}
    winners: dict[int, int] = {}
    counts: list[list[int]] = []
    decode = msgspec.json.Decoder(Figures).decode
    with path.open("rb") as file:
        for number, line in enumerate(file):
            one = decode(line)
            cell = cells.setdefault((one.model, one.variant), len(cells))
            if cell == len(counts):
                counts.append([0] * 8)
            prompt = prompts.setdefault(one.prompt_id, len(prompts))
            winners[(cell << 40) | (prompt << 20) | one.repeat] = number
            counts[cell][one.score] += 1
            counts[cell][6] += bool(one.red_flag)
    return winners, counts, list(cells)


def row_of(one: Row, page: int) -> str:
    key = sha256(f'["{one.model}","{one.variant}","{one.prompt_id}",{one.repeat}]'.encode()).hexdigest()[:12]
    score = '<span class="quiet">unscored</span>' if one.unscored else (
        f'<span class="score"><b>{one.score}</b>{PIPS[one.score]}</span>'
    )  # fmt: skip
    flag = '<span class="tag bad">Red flag</span>' if one.red_flag else '<span class="quiet" role="img">–</span>'
    return (
        f'<tr id="v-{key}">\n<th scope="row" class="c-p"><a class="pid" href="verdicts-{page}.html#v-{key}">'
        f'{one.prompt_id}</a></th>\n<td class="c-m"><span class="mv"><code class="id">{escape(one.model)}</code> '
        f'<span class="var">{escape(one.variant)} · repeat {one.repeat}</span></span></td>\n'
        f'<td class="c-s">{score}</td>\n<td class="c-r">{flag}</td>'
        f'\n<td class="c-w"><span>{escape(one.rationale or one.error or "")}</span></td>'
        "\n</tr>\n"
    )


def rows(path: Path, winners: dict[int, int]) -> Iterator[Row]:
    wanted = set(winners.values()) if len(winners) != sum(1 for _ in path.open("rb")) else None
    decode = msgspec.json.Decoder(Row).decode
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if wanted is None or number in wanted:
                yield decode(line)


def batches(path: Path, winners: dict[int, int]) -> Iterator[tuple[int, list[str], list[str]]]:
    page, found, flagged = 1, [], []
    for one in rows(path, winners):
        text = row_of(one, page)
        found.append(text)
        if one.red_flag or one.unscored:
            flagged.append(text)
        if len(found) == ROWS:
            yield page, found, flagged
            page, found, flagged = page + 1, [], []
    if found:
        yield page, found, flagged


def write(path: Path, title: str, body: str) -> None:
    path.write_bytes((HEAD.format(title) + body + FOOT).encode())


def answers(path: Path, home: Path) -> None:
    decode = msgspec.json.Decoder(Answer).decode
    cards: list[str] = []
    page = 1
    with path.open("rb") as file:
        for line in file:
            one = decode(line)
            key = sha256(f'["{one.model}","{one.variant}","{one.prompt_id}",{one.repeat}]'.encode()).hexdigest()[:12]
            cards.append(
                f'<article class="answer-card" id="a-{key}"><h2><a href="#a-{key}">{one.prompt_id}</a></h2>'
                f'<p>{escape(one.model)} {escape(one.variant)}</p><div class="md">{MARKDOWN.render(one.answer)}</div>'
                f'<p class="sub"><a href="judge/verdicts-1.html#v-{key}">verdict</a></p></article>'
            )
            if len(cards) == CARDS:
                write(home / f"answers-{page}.html", "Answers", "".join(cards))
                page, cards = page + 1, []
    if cards:
        write(home / f"answers-{page}.html", "Answers", "".join(cards))


def bundle(folder: Path, home: Path) -> str:
    """Writes the pages of one bundle; returns its row of the index."""
    judge = home / "judge"
    judge.mkdir(parents=True)
    log = folder / "judgements.jsonl"
    winners, counts, cells = fold(log)
    flagged: list[str] = []
    newest: list[str] = []
    for page, found, red in batches(log, winners):
        write(judge / f"verdicts-{page}.html", "Verdicts", f"<table><tbody>{''.join(found)}</tbody></table>")
        newest = found[-50:]
        flagged += red
    for number in range(0, len(flagged), ROWS):
        body = "".join(flagged[number : number + ROWS])
        write(judge / f"flagged-{number // ROWS + 1}.html", "Flagged", f"<table><tbody>{body}</tbody></table>")
    bars = "".join(f"<li>{sum(count[score] for count in counts)}</li>" for score in range(6))
    write(judge / "index.html", "Judge monitor", f"<ol>{bars}</ol><table><tbody>{''.join(newest)}</tbody></table>")
    table = "".join(
        f"<tr><td>{escape(model)}</td><td>{escape(variant)}</td>{''.join(f'<td>{count}</td>' for count in line)}</tr>"
        for (model, variant), line in zip(cells, counts, strict=True)
    )
    write(home / "index.html", folder.name, f"<table><tbody>{table}</tbody></table>")
    if (folder / "answers.jsonl").exists():
        answers(folder / "answers.jsonl", home)
    return f'<tr><td><a href="runs/{folder.name}/index.html">{folder.name}</a></td><td>{len(winners)}</td></tr>'


def main() -> None:
    runs, out = map(Path, sys.argv[1:])
    index = [bundle(folder, out / "runs" / folder.name) for folder in sorted(runs.iterdir(), reverse=True)]
    write(out / "index.html", "Runs", f"<table><tbody>{''.join(index)}</tbody></table>")


if __name__ == "__main__":
    main()
