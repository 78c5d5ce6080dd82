"""Every call to the file system fails once, for each command: with a full disk, a broken one, no permission, too many
open files, and with the process killed at that very moment.

Whatever the call was: what was measured before stays, a command that says "done" has done it, one that failed says
where and why, and the next one brings everything to where it would have been.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from tests.faults.cases import CASES, Ready, next_words, state, whole_lines
from tests.faults.faults import KILL, LONG, READ, Commands, chosen, copy_of, leftovers
from touchstone.bundle import open_bundle

ERRORS = {
    "disk full": (errno.ENOSPC, False),
    "disk broken once": (errno.EIO, True),
    "no permission": (errno.EACCES, False),
    "no permission once": (errno.EACCES, True),
    "read-only": (errno.EROFS, False),
    "too many open files once": (errno.EMFILE, True),
    "killed": (KILL, False),
}
"""Name to errno, and whether only one call fails."""
IN_SHORT = ("disk full", "disk broken once", "killed")
"""What the short version tries, one call each; all three for the judge, else in turn."""
MEASURING = ("judge",)


def pairs() -> list[tuple[str, str]]:
    """Which case meets which error."""
    if LONG:
        return [(name, error) for name in CASES for error in ERRORS]
    return [
        (name, error)
        for number, name in enumerate(CASES)
        for turn, error in enumerate(IN_SHORT)
        if name in MEASURING or number % 3 == turn
    ]


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize(("name", "error"), pairs())
def test_the_call_fails(commands: Commands, ready: Callable[[str], Ready], name: str, error: str) -> None:
    case, expected = CASES[name], ready(name)
    number, once = ERRORS[error]
    for call in chosen(expected.calls[number], 1, f"{name} {error}"):
        home = copy_of(expected.before, commands.home)
        commands.page.arm(home, call, number, once=once, half=number in (errno.ENOSPC, KILL))
        done = commands(*case.words, code=None)
        commands.page.disarm()
        where = f"call {call} of {expected.calls[number]}"
        measured = whole_lines(home)
        if number == KILL:
            assert done.code in (0, -9), where
        else:
            assert done.code in (0, 1), f"{where}: exit {done.code}\n{done.err}"
            said = case.leaves_out and re.search("not shown|could not be read", done.err)
            if done.code == 0 and not said:
                assert state(home) == expected.after, f"{where}: says that all is well\n{done.err}"
            elif done.code:
                assert "touchstone: " in done.err, where
        if name == "merge" and state(home) == expected.after:
            continue  # it is done, and does not do it twice
        again = commands(*next_words(case, home), code=None)
        assert again.code == 0, f"{where}\n{done.err}\nand then\n{again.err}"
        assert state(home) == expected.after, f"{where}\n{done.err}\nand then\n{again.err}"
        for log, lines in whole_lines(home).items():
            assert set(measured.get(log, ())) <= set(lines) or name == "judge --restart", f"{where}: {log}"
        assert not [path for path in leftovers(home) if path.startswith(("public", "vault"))], where
        for bundle in (home / "runs").iterdir():
            if (bundle / "judge_events.jsonl").exists():
                view = open_bundle(bundle).refresh()
                assert view.judge.finished and not view.judge.aborted and view.judge.done == view.judge.total, where


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("name", CASES if LONG else ["scorecard"])
def test_nothing_is_written_down_of_half_a_run(commands: Commands, ready: Callable[[str], Ready], name: str) -> None:
    """Each file that is opened for reading fails once: the command is refused, or its result is whole."""
    case, expected = CASES[name], ready(name)
    call = 0
    while True:
        call += 1
        home = copy_of(expected.before, commands.home)
        commands.page.arm(home, call, errno.EIO, once=True, kinds=READ)
        done = commands(*case.words, code=None)
        if commands.page.count < call:
            break
        said = case.leaves_out and re.search("not shown|could not be read", done.err)
        assert done.code == 1 or said or state(home) == expected.after, f"call {call}\n{done.err}"
    commands.page.disarm()
    assert call > 3
