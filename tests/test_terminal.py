"""What a person sees: a bar on a terminal, lines elsewhere, and a summary that needs neither colour nor a terminal."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.standin import Action, Brain, Request, StandIn, openai_error
from tests.test_chain import PROMPTS, write_project
from touchstone.cli.terminal import Pace, columns, command, duration, printable, table

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")


def at_terminal(cli: Cli, *args: str, term: str = "xterm", width: int = 100) -> tuple[int, str, str]:
    """(exit code, stdout, what the terminal got on stderr) of a command whose stderr is a terminal."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    environment = {**cli.environment(), "TERM": term}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [sys.executable, "-m", "touchstone", *args], cwd=cli.home, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        assert process.stdout is not None
        open_ends = {ours: bytearray(), process.stdout.fileno(): bytearray()}
        left = set(open_ends)
        while left:
            for end in select.select(list(left), [], [])[0]:
                try:
                    data = os.read(end, 65536)
                except OSError:  # Linux says so when the last writer of a terminal is gone
                    data = b""
                open_ends[end] += data
                if not data:
                    left.discard(end)
        code = process.wait()
    seen, out = (bytes(open_ends[end]).decode("utf-8", "replace") for end in open_ends)
    os.close(ours)
    return code, out, seen


def flagging(request: Request) -> Action:
    """One question fails."""
    if request.is_chat and "Question 1?" in request.text_of("user") and request.json.get("max_tokens") == 50:
        return openai_error(400, "no [bold]such[/bold] luck \x1b]0;owned\x07")
    return Brain(delay_s=0.15)(request)  # long enough for the bar to be drawn while each model answers


@posix
def test_a_bar_on_a_terminal_and_a_summary_on_stdout(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = flagging
    code, out, seen = at_terminal(cli, "eval", "--variant", "plain")
    assert code == 0, seen
    assert f"{2 * PROMPTS}/{2 * PROMPTS} answers" in seen or f"{2 * PROMPTS - 1}/{2 * PROMPTS} answers" in seen
    assert "m2 · plain" in seen and "tokens/s" in seen and "left" in seen and "1 failed" in seen
    assert "m1 plain p01: " in seen and "[bold]such[/bold] luck" in seen  # markup of strangers is text
    assert "\x1b]0;" not in seen and "\x07" not in seen
    assert "m1 plain p02" not in seen  # what went well is in the bar
    assert "\x1b" not in out and "10 ok" in out and "2 error" in out
    assert re.search(r"^ +6 +1 +0 +0 .* m1$", out, re.M) and re.search(r"tokens/s", out)

    code, out, seen = at_terminal(cli, "judge")
    assert code == 0 and "verdicts" in seen and "mean " in seen and "red flags" in seen and "unscored" in seen
    assert "now each model as a whole" in seen  # the bar is full, but the reports take their time
    head, *rows = out.splitlines()[1:]
    assert head.split() == [
        "recommendation",
        "quality",
        "mean",
        "red",
        "flags",
        "unscored",
        "model",
        "variant",
        "safety",
    ]
    assert len(rows) == 2 and all("plain" in row for row in rows)
    assert "next: touchstone build" in seen


@posix
def test_no_bar_on_a_terminal_that_cannot_take_it_back(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    code, _, seen = at_terminal(cli, "eval", "--model", "m1", "--variant", "plain", term="dumb")
    assert code == 0 and "\x1b" not in seen and f"{PROMPTS}/{PROMPTS}  m1 plain p05" in seen


def test_elsewhere_a_line_for_each_step_and_the_same_summary(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = flagging
    done = cli("eval", "--model", "m1", "--variant", "plain")
    assert [line.split("  ")[0] for line in done.err.splitlines() if line.startswith(("1/", "2/", "6/"))] == [
        "1/6", "2/6", "6/6"
    ]  # fmt: skip
    assert "no [bold]such[/bold] luck" in done.err and "\x1b" not in done.err + done.out
    assert "tokens/s" in done.out.splitlines()[1] and done.out.splitlines()[2].endswith("m1")
    lines = cli("judge").out.splitlines()
    assert lines[1].startswith("recommendation") and "plain" in lines[2]


@posix
def test_a_name_that_needs_quoting_is_quoted_in_the_next_command(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    done = cli("eval", "--model", "m1", "--variant", "plain", "--runs", "my runs; ls")
    assert "next: touchstone judge --bundle 'my runs; ls/" in done.err


# -- the parts


def ticking(*times: float) -> Callable[[], float]:
    left = list(times)
    return lambda: left.pop(0)


def test_the_pace_is_that_of_the_steps_of_this_run() -> None:
    pace = Pace(ticking(100.0, 104.0, 108.0, 108.0, 110.0, 200.0), left=5)
    assert pace.left_s is None
    pace.step()
    pace.step()
    assert pace.left_s == 12.0  # three left, four seconds each
    assert pace.left_s == 10.0  # two seconds later
    assert pace.left_s == 0.0  # and late


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "unknown"), (0, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@given(st.text())
def test_nothing_printed_is_an_order_to_the_terminal(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff]", printable(text))


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20), st.integers()), max_size=8))
def test_columns_stay_columns(rows: list[tuple[str, str, int]]) -> None:
    lines = table(["one", "zwei 漢字", "n"], rows, right=[2]).splitlines()
    assert len(lines) == 1 + len(rows)
    assert len({columns(line) for line in lines}) == 1  # the last column is flush right


def test_an_empty_cell_is_a_dash() -> None:
    assert table(["a", "b"], [[None, "x"]]).splitlines() == ["a  b", "-  x"]


@posix
def test_commands_can_be_typed_as_they_stand() -> None:
    assert command("touchstone", "judge", "--bundle", Path("a b/$(x)")) == "touchstone judge --bundle 'a b/$(x)'"


@posix
def test_start_up_does_not_pay_for_the_bar(cli: Cli) -> None:
    slow = "('rich', 'pydantic', 'httpx', 'psutil')"
    code = f"import sys; import touchstone.cli; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=cli.home, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
