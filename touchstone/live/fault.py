"""Why there is no page: what could not be built, as a page that goes away by itself once it is mended."""

from __future__ import annotations

from html import escape
from typing import Final

from touchstone.i18n import LANGUAGES, Words
from touchstone.jsonsource import visible

STYLE_URL: Final = "/-/fault.css"
STYLE: Final = b"""\
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:8vh auto;padding:0 1.5rem}
body{background:#f6f7f5;color:#1a211f}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{background:#121615;color:#e7ebe8}}
"""
"""The site's own style may be what is missing."""
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="{lang}" data-fault>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; \
script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'">
<title>{title} · touchstone</title>
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="{style}">
</head>
<body>
<main id="main" class="wrap">
<section class="lead">
<div class="lead-head"><h1>{title}</h1></div>
<pre class="pre"><code>{text}</code></pre>
<p class="sub">{next}</p>
</section>
</main>
</body>
</html>
"""


def fault_page(text: str, lang: str) -> bytes:
    """The page that stands in for every other while the site cannot be built; `text` says where and what."""
    words = Words(lang if lang in LANGUAGES else LANGUAGES[0])
    return _PAGE.format(
        lang=words.lang,
        style=STYLE_URL,
        title=escape(words._("The site could not be built")),
        text=escape(visible(text)),
        next=escape(words._("What is mended and saved is tried at once; this page then gives way by itself.")),
    ).encode("utf-8", "replace")
