"""The command line: one module a command; a command is parse, call, echo.

Only click and our errors are imported here: `touchstone --help` starts as fast as click does. Each command imports
what it needs when it runs. Errors become exit codes in one place, `main`.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Final, NoReturn

import click

from touchstone import __version__
from touchstone.errors import TouchstoneError

COMMANDS: Final = {
    "init": ("init:init", "Write settings for the model servers of this machine."),
    "demo": ("demo:demo", "Look at sample runs; watch one being judged again."),
    "eval": ("evaluate:evaluate", "Ask models every prompt of a pack; makes a run."),
    "judge": ("judge:judge", "Let the judge score every answer and every model."),
    "merge": ("merge:merge", "Join runs of one pack, or parts of one run."),
    "run": ("run:run", "Eval, judge and build in one go, from the settings."),
    "scorecard": ("scorecard:scorecard", "Write scorecard.md again."),
    "judge-meta": ("judge_meta:judge_meta", "Check the judge against a strong reference."),
    "build": ("build:build", "Build the site from all runs."),
    "serve": ("serve:serve", "Serve the site; open pages grow with the runs."),
    "check": ("check:check", "Say what is wrong with a run, a pack or a response."),
}
"""Name to where the command stands and what it does in a line, in the order in which one needs them."""


class _Lazy(click.Group):
    """Imports a command when it is used; the list of all of them needs none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"touchstone.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="touchstone")
def touchstone() -> None:
    """Is this local model good enough, and can you trust the judge that says so?

    The usual way: touchstone eval, touchstone judge, touchstone build. First look: touchstone demo.
    """


def _terminated(signum: int, frame: FrameType | None) -> None:
    """SIGTERM ends every command as Ctrl-C does, by the same handler: asyncio stops its tasks at a safe place."""
    signal.raise_signal(signal.SIGINT)


def main() -> NoReturn:
    """Runs the command line and exits: 0 done, 1 refused or stopped early, 2 usage, 130 interrupted."""
    # Shells start background jobs with SIGINT ignored; SIGTERM, which goes the same way, would then do nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminated)
    from touchstone.cli import streams

    streams.protect()
    code = _run()
    lost = streams.loss()
    if lost is not None:
        click.echo(f"touchstone: {lost}", err=True)
    sys.exit(code or int(lost is not None))


def _run() -> int:
    try:
        result = touchstone.main(standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("stopped; what was written so far is kept", err=True)
        return 130
    except TouchstoneError as error:
        from touchstone.cli.common import note

        note(f"touchstone: {error}")
        return 1
    except OSError as error:
        # Nobody had anything better to say about it than where it happened.
        from touchstone.cli.common import note
        from touchstone.store.write import plain_words

        where = f"{error.filename}: " if error.filename is not None else ""
        note(f"touchstone: {where}{plain_words(error)}")
        return 1
