"""The script that keeps an open page up to date, and how it gets into a page on the way out."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from importlib import resources
from typing import Final

from touchstone.i18n import LANGUAGES, Words
from touchstone.live.marks import Marks

SCRIPT_URL: Final = "/-/live.js"
_LANG: Final = re.compile(rb'<html[^>]*? lang="([a-z]+)')


def live_script() -> bytes:
    """The script itself."""
    return (resources.files("touchstone.live") / "live.js").read_bytes()


@cache
def _sentences(lang: str) -> str:
    """What the script says, in the page's language; as the value of an attribute."""
    _ = Words(lang if lang in LANGUAGES else LANGUAGES[0])._
    sentences = {
        "live": _("Live"),
        "paused": _("Paused"),
        "news": _("Paused; there is news"),
        "lost": _("Connection lost, trying again"),
        "gone": _("This page is no longer there"),
        "elsewhere": _("Live in other windows; this one follows when you come back to it"),
        "pause": _("Pause"),
        "resume": _("Resume"),
    }
    return escape(json.dumps(sentences, ensure_ascii=False))


def with_script(page: bytes, at: str, marks: Marks | None = None) -> bytes:
    """The page with the live script, which learns here which build the page shows and the marks of its rows."""
    found = _LANG.search(page, 0, 400)
    words = _sentences(found[1].decode() if found is not None else LANGUAGES[0])
    named = b" ".join(marks.values()).decode() if marks else ""
    tag = (
        f'<script src="{SCRIPT_URL}" data-build="{at}" data-marks="{named}" data-words="{words}" defer></script></head>'
    )
    return page.replace(b"</head>", tag.encode(), 1)
