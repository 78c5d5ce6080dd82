"""What several page kinds say alike."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass

from touchstone.contracts.base import Recommendation
from touchstone.contracts.lines import Key
from touchstone.i18n import Words
from touchstone.view import BundleView


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the site: a page of the same language, and a row in it."""

    path: str
    fragment: str = ""


def row_id(key: Key) -> str:
    """The id of a key's verdict, from the key alone: it stays when rows come and go."""
    text = json.dumps(key, ensure_ascii=True, separators=(",", ":"))
    return "v-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def recommendation_words(value: Recommendation | None, words: Words) -> str:
    """The wire value in the reader's language."""
    match value:
        case "Ja":
            return words._("Yes")
        case "Mit Einschränkung":
            return words._("With reservations")
        case "Nein":
            return words._("No")
        case None:
            return words._("No recommendation")


def recommendation_counts(bundle: BundleView) -> dict[Recommendation | None, int]:
    """Recommendation to the number of cells that got it, best first."""
    return dict(Counter(row.recommendation for row in bundle.rows))


def run_title(bundle: BundleView, words: Words) -> str:
    """A run in a few words: its pack and its day, else its folder."""
    title = bundle.pack.title if bundle.pack is not None else None
    created = bundle.manifest.created if bundle.manifest is not None else None
    if title and created:
        return words._("%(pack)s of %(day)s", pack=title, day=words.day(created))
    return title or bundle.name
