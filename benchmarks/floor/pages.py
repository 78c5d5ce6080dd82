"""Renders a folder of Markdown pages with markdown-it-py and one jinja2 template, in two processes; nothing else.

python -m benchmarks.floor.pages DOCS OUT
"""

from __future__ import annotations

import sys
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import frontmatter
import yaml
from frontmatter.default_handlers import YAMLHandler
from jinja2 import Template
from markdown_it import MarkdownIt

PAGE = Template(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title></head>'
    "<body><main>{{ body }}</main></body></html>"
)
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


class Handler(YAMLHandler):
    """The quick loader."""

    def load(self, fm: str, **_: object) -> Any:
        return yaml.load(fm, Loader=yaml.CSafeLoader)


def convert(job: tuple[Path, Path]) -> None:
    source, target = job
    fields, text = frontmatter.parse(source.read_text(encoding="utf-8"), handler=Handler())
    html = PAGE.render(title=fields["title"], body=MARKDOWN.render(text).replace(".md", ".html"))
    target.write_bytes(html.encode())


def main() -> None:
    docs, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True)
    jobs = [(path, out / f"{path.stem}.html") for path in sorted(docs.glob("*.md"))]
    with Pool(2) as pool:
        pool.map(convert, jobs, chunksize=50)


if __name__ == "__main__":
    main()
