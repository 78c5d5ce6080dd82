"""What the search looks through, as classic scripts: pages from `file://` may load nothing else.

    data/search-<n>.js                 runs, packs and their prompts; the first part is small
    runs/<bundle>/judge/search-<n>.js  verdicts with their reasons, a bounded number in each

The start page loads the first part when somebody searches, and the rest when a search reaches it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from touchstone.i18n import Words
from touchstone.jsonsource import visible
from touchstone.judge_events import UNSCORED, shorten
from touchstone.pages.common import is_replay, prompt_titles, row_id, run_title, verdict_page
from touchstone.pages.verdicts import page_count
from touchstone.site import File, Site
from touchstone.view import BundleView

FIRST_PART: Final = 56_000
"""Bytes of the first part, so that a search begins at once."""
PART: Final = 280_000
"""Bytes of every further part."""
SHARD_VERDICTS: Final = 500
SHARD_CHARS: Final = 400
"""Characters of a rationale that are searched: with the rest of its line they keep a shard below 300 kB."""


def plan(site: Site) -> Iterator[File]:
    """The parts over all runs."""
    for number, entries in enumerate(_parts(list(_entries(site))), 1):
        yield File(part_path(number), partial(_script, "part", entries))


def part_path(number: int) -> str:
    return f"data/search-{number}.js"


def _entries(site: Site) -> Iterator[dict[str, Any]]:
    """Runs, newest first; each pack before the first run that was asked with it."""
    words = Words(site.langs[0])
    packs: set[str] = set()
    for bundle in site.bundles:
        home = site.pack_home(bundle)
        if home is not None and home not in packs and bundle.pack is not None:
            packs.add(home)
            yield from _pack(home, bundle)
        yield _run(site, bundle, words)


def _pack(home: str, bundle: BundleView) -> Iterator[dict[str, Any]]:
    pack = bundle.pack
    assert pack is not None
    prompts = [[prompt.id, prompt.title or shorten(prompt.text, 80) or ""] for prompt in pack.prompts]
    for start in range(0, max(1, len(prompts)), 200):
        part = prompts[start : start + 200]
        yield {"pack": pack.title, "id": pack.id, "at": quote(home) + "index.html", "prompts": part}


def _run(site: Site, bundle: BundleView, words: Words) -> dict[str, Any]:
    created = None if bundle.manifest is None else bundle.manifest.created
    models = list(dict.fromkeys(cell.model for cell in bundle.keys.cells))
    return {
        "run": bundle.name,
        "title": run_title(bundle, words),
        "at": quote(site.home(bundle)) + "index.html",
        "pack": None if bundle.pack is None else bundle.pack.title,
        "judge": bundle.judge_model,
        "models": [name[:120] for name in models[:50]],
        "day": None if created is None else created.date().isoformat(),
        "replay": is_replay(bundle) is not None,
        "shards": 0 if bundle.name in site.reduced else shards(bundle),
    }


def _parts(entries: list[dict[str, Any]]) -> Iterator[list[str]]:
    """The entries as JSON, cut into parts; at least one part."""
    part: list[str] = []
    size, limit = 0, FIRST_PART
    for entry in entries:
        text = _json(entry)
        if part and size + len(text.encode()) > limit:
            yield part
            part, size, limit = [], 0, PART
        part.append(text)
        size += len(text.encode()) + 1
    yield part


def _json(value: Any) -> str:
    """As JSON that is also a script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return visible(text).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(what: str, entries: Iterable[str]) -> bytes:
    return ("touchstoneSearch." + what + "([\n" + ",\n".join(entries) + "\n]);\n").encode("utf-8", "replace")


# -- the verdicts of one run


def shards(bundle: BundleView) -> int:
    """How many scripts hold the verdicts of a run."""
    return -(-bundle.judge.done // SHARD_VERDICTS) if bundle.judge.done else 0


def plan_run(site: Site) -> Iterator[File]:
    """The verdicts of each run, in page order; those that are there, not those that may come."""
    for bundle in site.bundles:
        if not page_count(bundle):
            continue
        home = site.home(bundle)
        judged = [number for number in bundle.keys.in_order() if bundle.judge.seen(number) is not None]
        for start in range(0, len(judged), SHARD_VERDICTS):
            numbers = judged[start : start + SHARD_VERDICTS]
            number = start // SHARD_VERDICTS + 1
            yield File(
                f"{home}judge/search-{number}.js",
                partial(_shard, bundle, home, numbers),
                inputs=site.inputs(bundle, "search", number, bundle.marks(numbers)),
            )


def _shard(bundle: BundleView, home: str, numbers: list[int]) -> bytes:
    titles = prompt_titles(bundle)
    cells: dict[tuple[str, str], int] = {}
    prompts: dict[str, int] = {}
    rows = []
    for number, verdict in zip(numbers, bundle.source.verdicts(numbers), strict=True):
        seen = bundle.judge.seen(number)
        if seen is None:
            continue
        key = bundle.keys.key(number)
        cell = cells.setdefault((key.model, key.variant), len(cells))
        prompt = prompts.setdefault(key.prompt_id, len(prompts))
        score = None if seen.mark == UNSCORED else seen.mark
        text = None if verdict is None else shorten(verdict.rationale, SHARD_CHARS)
        rows.append([row_id(key), verdict_page(bundle, number), prompt, cell, score, int(seen.flag == 1), text or ""])
    shard = {
        "home": quote(home) + "judge/",
        "run": bundle.name,
        "cells": [f"{model} {variant}"[:160] for model, variant in cells],
        "prompts": [[prompt[:160], (titles.get(prompt) or "")[:160]] for prompt in prompts],
    }
    return _script("shard", [_json(shard), *(_json(row) for row in rows)])
