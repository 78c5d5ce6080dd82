"""What several commands do alike: the config, and where a bundle is if none was named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from touchstone.contracts.config import Config
    from touchstone.monitor import Monitor, ViewName
    from touchstone.store.address import Address

F = TypeVar("F", bound=Callable[..., Any])

CONFIG_NAME = "touchstone.yaml"


@dataclass(frozen=True)
class Settings:
    """The config, and the folder that its relative paths start from."""

    config: Config
    home: Path
    """The config's folder; the working folder where there is no config."""

    def path(self, text: str) -> Path:
        """A path from the config."""
        return self.home / Path(text).expanduser()

    @property
    def runs(self) -> Path:
        """The folder that runs are written to. Raises TouchstoneError where they can only be read."""
        source = self.source
        if isinstance(source, Path):
            return source
        from touchstone.errors import BundleError

        raise BundleError(f"{source}: {READ_ONLY.format(copy=source.copy)}")

    @property
    def source(self) -> Path | Address:
        """Where runs are read: a folder, or an address elsewhere. Raises InputError."""
        from touchstone.store.address import is_remote, parse_address

        text = self.config.runs
        return parse_address(text, "runs") if is_remote(text) else self.path(text)

    @property
    def out(self) -> Path:
        return self.path(self.config.out)


def config_option(command: F) -> F:
    """Adds `--config`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help=f"Settings to use instead of {CONFIG_NAME} in the working folder.",
    )(command)


READ_ONLY = "runs can be read there, but not written; name a local folder (a copy is made by: {copy})"


class LocalPath(click.Path):
    """A path of this machine, for commands that write there; an address elsewhere gets told so."""

    def __init__(self, **how: Any) -> None:
        super().__init__(path_type=Path, **how)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from touchstone.store.address import is_remote, parse_address

        if isinstance(value, str) and is_remote(value):
            address = parse_address(value, _name(param))
            self.fail(f"{address}: {READ_ONLY.format(copy=address.copy)}", param, ctx)
        return super().convert(value, param, ctx)


class Source(click.Path):
    """A path of this machine, or an address elsewhere, for commands that only read."""

    def __init__(self, **how: Any) -> None:
        super().__init__(path_type=Path, **how)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from touchstone.store.address import is_remote, parse_address

        if isinstance(value, str) and is_remote(value):
            return parse_address(value, _name(param))
        return super().convert(value, param, ctx)


def _name(param: click.Parameter | None) -> str:
    return "address" if param is None else param.opts[0]


def runs_option(command: F) -> F:
    """Adds `--runs`: where runs are written."""
    return click.option("--runs", type=LocalPath(file_okay=False), help="Folder of the runs.  [default: runs]")(command)


def source_option(command: F) -> F:
    """Adds `--runs`: where runs are read, which may be elsewhere."""
    return click.option(
        "--runs",
        type=Source(file_okay=False),
        metavar="DIR|URL",
        help="Folder of the runs, or an address like s3://bucket/runs.  [default: runs]",
    )(command)


def web_options(command: F) -> F:
    """Adds `--web`, `--port` and `--no-open`."""
    for option in (
        click.option("--no-open", is_flag=True, help="With --web: do not open the browser."),
        click.option(
            "--port", type=click.IntRange(0, 65535), help="With --web: where; 0 takes a free one.  [default: 0]"
        ),
        click.option("--web", is_flag=True, help="Show the run in the browser while it goes on; implies --events."),
    ):
        command = option(command)
    return command


def live_page(view: ViewName, settings: Settings, web: bool, port: int | None, no_open: bool) -> Monitor:
    """The live page that was asked for; without `web` one that does nothing. Raises click.UsageError."""
    from touchstone.monitor import Monitor, Web

    if port is not None and not web:
        raise click.UsageError("--port says where the page of --web is; add --web")
    config = settings.config
    asked = Web(port or 0, not no_open, tuple(config.lang), config.timezone, settings.home)
    return Monitor(view, asked if web else None, note, click.echo)


def load_settings(path: Path | None) -> Settings:
    """The config at `path`, else touchstone.yaml in the working folder, else defaults. Raises InputError."""
    from touchstone.contracts.config import Config, parse_config

    path = path or (Path(CONFIG_NAME) if Path(CONFIG_NAME).is_file() else None)
    if path is None:
        return Settings(Config(), Path())
    return Settings(parse_config(path.read_bytes(), str(path)), path.parent)


_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,60}|[a-z_]{1,60}")
"""What the name of an environment variable looks like, and no key does."""


def api_key(variable: str | None) -> str | None:
    """The key from the environment variable that the config names. Raises EndpointError if it is not set."""
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        from touchstone.errors import EndpointError

        if not _VARIABLE.fullmatch(variable):
            # Perhaps it is the key itself, which shall not be shown.
            raise EndpointError(
                "api_key_env holds no name of an environment variable; write a name like MY_API_KEY there, "
                "and keep the key itself in that variable"
            )
        raise EndpointError(f"the environment variable {variable} is not set; export your API key in it")
    return value


def the_bundle(named: Path | None, settings: Settings) -> Path:
    """The bundle that was named, else the newest one, which is then said."""
    if named is not None:
        from touchstone.errors import BundleError

        if not named.is_dir():
            raise BundleError(f"{named}: no such folder; name a run, or leave it out for the newest one")
        return named
    from touchstone.store.bundles import newest_bundle

    bundle = newest_bundle(settings.runs)
    note(f"the newest run: {bundle}")
    return bundle


def fetched(address: Address, home: Path) -> Path:
    """The runs at an address elsewhere, as a folder that was brought up to date. Raises TouchstoneError."""
    from touchstone.store.remote import Mirror

    mirror = Mirror(address, home / ".touchstone")
    for line in mirror.pull(note).notes:
        note(line)
    return mirror.folder


def note(text: str) -> None:
    """Progress and remarks go to stderr; stdout holds results only."""
    from touchstone.cli import terminal

    terminal.note(text)


def tell(text: object) -> None:
    """A result on stdout, without what a terminal would obey: names of folders may be a stranger's."""
    from touchstone.cli import terminal

    click.echo(terminal.printable(str(text)))
