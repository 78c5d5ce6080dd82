"""`touchstone init`: a folder to start from."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli.common import CONFIG_NAME, note

PACK_NAME = "example-pack.yaml"
WORKFLOW = ".github/workflows/touchstone-site.yml"


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--pages", is_flag=True, help="Also write a workflow that publishes the site on GitHub Pages.")
def init(folder: Path, pages: bool) -> None:
    """Settings for the model servers on this machine, an example pack, a .gitignore."""
    from touchstone.resources import starter

    files = {PACK_NAME: starter(PACK_NAME), ".gitignore": starter("gitignore")}
    if pages:
        files[WORKFLOW] = starter("touchstone-site.yml")
    if not (folder / CONFIG_NAME).exists():
        files = {CONFIG_NAME: _config(), **files}
    else:
        note(f"{folder / CONFIG_NAME} is there already and stays as it is")
    for name, text in files.items():
        if _write(folder / name, text):
            click.echo(folder / name)
        else:
            note(f"{folder / name} is there already and stays as it is")
    if pages and not (folder / ".git").exists():
        note(f"GitHub reads {WORKFLOW} only at the top of a repository; {folder.resolve()} is none yet")
    _next(folder)


def _config() -> str:
    import asyncio

    from touchstone.presets import config_text, discover, findings

    servers = asyncio.run(discover())
    for line in findings(servers):
        note(line)
    return config_text(servers, PACK_NAME)


def _write(path: Path, text: str) -> bool:
    """Whether the file is new; one that was there stays as it is. Raises MachineError."""
    from touchstone.store.write import machine_error

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise machine_error(path.parent, error) from error
    try:
        file = path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        return False
    except OSError as error:
        raise machine_error(path, error) from error
    try:
        with file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise machine_error(path, error) from error
    return True


def _next(folder: Path) -> None:
    from touchstone.cli.terminal import command

    go = "" if folder.resolve() == Path.cwd() else f"{command('cd', folder)} && "
    note(f"next: {go}touchstone run")
