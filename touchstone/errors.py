"""Every failure that a person can do something about, split by whose fault it is.

    TouchstoneError            message says where, what and the next step; the command line prints it and exits with 1
    ├── InputError             a file that someone wrote: pack, config, response (one or many Issues, all at once)
    ├── BundleError            the state of a bundle: not there, nothing judged yet, judged by another judge
    ├── BusyError              another process holds the bundle
    ├── EndpointError          the model server cannot be used at all (a single failed answer is data, not an error)
    └── MachineError           the disk, the permissions, a port

A fault of ours is no TouchstoneError: it stays a traceback, so that it can be reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def brief(text: object, limit: int = 60) -> str:
    """What somebody wrote, fit to be quoted in a message: one printable line of at most `limit` characters."""
    # No more is looked at than can be shown, however long it is.
    flat = " ".join("".join(char if char.isprintable() else " " for char in str(text)[: limit + 1]).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong in one place of a text that somebody wrote."""

    source: str
    """File name as the person knows it."""
    line: int | None
    """1-based, None where no line can be named."""
    text: str
    """What is wrong and how to mend it."""

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.text}"


class TouchstoneError(Exception):
    """Base of all errors that are told in plain language and end a command with exit code 1."""


class InputError(TouchstoneError):
    """A text that somebody wrote cannot be used. Carries all issues, not only the first."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class BundleError(TouchstoneError):
    """The bundle is not in the state that the command needs."""


class BusyError(TouchstoneError):
    """Another process writes to this bundle at the moment."""


class EndpointError(TouchstoneError):
    """The model endpoint cannot be used: nobody answers, wrong key, unknown model, quota used up."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        """Nobody answers, which may be different in a minute."""


class MachineError(TouchstoneError):
    """The machine says no: disk full, no permission, port in use."""
