"""What a build is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from touchstone.publishing import Publish
from touchstone.store.address import Address


@dataclass(frozen=True)
class Options:
    """What `touchstone build` was asked for."""

    runs: Path
    out: Path
    remote: Address | None = None
    """Where the runs come from, if not from here; `runs` is then the folder that mirrors them."""
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
    scheduler: str | None = None
    """Address of a Dask scheduler whose workers make the pages."""
    state_home: Path = field(default_factory=Path.cwd)
    """The folder whose `.touchstone/` holds the state between builds."""
