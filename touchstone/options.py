"""What a build is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from touchstone.publishing import Publish


@dataclass(frozen=True)
class Options:
    """What `touchstone build` was asked for."""

    runs: Path
    out: Path
    langs: tuple[str, ...] = ("en",)
    base_url: str | None = None
    timezone: str | None = None
    templates: Path | None = None
    docs: Path | None = None
    """Folder of Markdown files that become pages."""
    publish: Publish = field(default_factory=Publish)
    noindex: bool = False
    """Ask search engines to leave the site out."""
    max_bytes: int = 900_000_000
    """What the pages of all runs may weigh; the oldest runs keep their result alone where it is more."""
    force: bool = False
    state_home: Path = field(default_factory=Path.cwd)
    """The folder whose `.touchstone/` holds the state between builds."""
