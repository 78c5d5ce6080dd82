"""The command line: one module a command; a command is parse, call, echo.

Only click and our errors are imported here: `touchstone --help` starts as fast as click does. Each command imports
what it needs when it runs. Errors become exit codes in one place, `main`.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Final, NoReturn

import click

from touchstone import __version__
from touchstone.cli import build, check, demo, evaluate, init, judge, judge_meta, merge, run, scorecard, serve
from touchstone.cli.common import note
from touchstone.errors import TouchstoneError

COMMANDS: Final = (
    init.init,
    demo.demo,
    evaluate.evaluate,
    judge.judge,
    merge.merge,
    run.run,
    scorecard.scorecard,
    judge_meta.judge_meta,
    build.build,
    serve.serve,
    check.check,
)


class _InOrder(click.Group):
    """Lists commands in the order in which one needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="touchstone")
def touchstone() -> None:
    """Is this local model good enough, and can you trust the judge that says so?

    The usual way: touchstone eval, touchstone judge, touchstone build. First look: touchstone demo.
    """


for command in COMMANDS:
    touchstone.add_command(command)


def _terminated(signum: int, frame: FrameType | None) -> None:
    """SIGTERM ends every command as Ctrl-C does, by the same handler: asyncio stops its tasks at a safe place."""
    signal.raise_signal(signal.SIGINT)


def main() -> NoReturn:
    """Runs the command line and exits: 0 done, 1 refused or stopped early, 2 usage, 130 interrupted."""
    # Shells start background jobs with SIGINT ignored; SIGTERM, which goes the same way, would then do nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminated)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A pipe under Windows or LANG=C knows no umlauts; a question mark is better than a traceback.
            stream.reconfigure(errors="replace")
    sys.exit(_run())


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
        click.echo("stopped; what was measured is kept", err=True)
        return 130
    except TouchstoneError as error:
        note(f"touchstone: {error}")
        return 1
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        sys.stderr.close()
        return 0
