"""Where runs lie that are not on this machine, as people write it; and what of it must never be printed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from touchstone.errors import InputError, Issue

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
COPY: Final = {
    "s3": "aws s3 sync {} DIR",
    "gs": "gcloud storage rsync --recursive {} DIR",
    "sftp": "rsync -a HOST:PATH/ DIR",
}
"""How runs are copied from there into a local folder."""
_SAME: Final = {"s3a": "s3", "gcs": "gs", "ssh": "sftp"}
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """Where runs lie, as an fsspec URL. As text it is what may be shown: without a password."""

    url: str = field(repr=False)
    scheme: str
    shown: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.shown

    @property
    def copy(self) -> str:
        """The command that makes a copy in a local folder."""
        return COPY.get(self.scheme, "with a tool of that service").format(self.shown)

    @property
    def name(self) -> str:
        """Its last part, fit to be the name of a folder."""
        last = self.shown.partition("?")[0].rsplit("/", 1)[-1]
        return last if usable(last) and not last.startswith(".") else "runs"

    def hide(self, text: str) -> str:
        """The text without our passwords."""
        for secret in self.secrets:
            text = text.replace(secret, "[hidden]")
        return text


def is_remote(text: str) -> bool:
    """Whether this is a URL, and no path."""
    return _URL.match(text) is not None


def parse_address(text: str, source: str = "--runs") -> Address:
    """Raises InputError for a URL that can be none of runs; the message shows no password."""

    def refuse(why: str) -> InputError:
        return InputError([Issue(source, None, why)])

    found = _URL.fullmatch(text.strip())
    if found is None or not text.strip().isprintable():
        raise refuse("is no address; write one like s3://bucket/runs")
    scheme, rest = found[1].lower(), found[2].rstrip("/")
    scheme = _SAME.get(scheme, scheme)
    authority, slash, path = rest.partition("/")
    login, at, host = authority.rpartition("@")
    user, colon, password = login.partition(":")
    query = path.partition("?")[2]
    values = [value for pair in query.split("&") if (value := pair.partition("=")[2])]
    shown = f"{scheme}://{user}{':[hidden]' if colon else ''}{at}{host}{slash}{path}"
    if values:
        shown = shown.partition("?")[0] + "?[hidden]"
    if "::" in text:
        raise refuse("addresses behind each other (::) are not supported; write one like s3://bucket/runs")
    if scheme in ("file", "local"):
        raise refuse("a folder of this machine is written as its path, without file://")
    if scheme in ("s3", "gs") and at:
        raise refuse(f"{scheme}:// takes no user and no password in the address; {credentials(scheme)}")
    if not host and not path:
        raise refuse(f"{scheme}:// of what? write an address like s3://bucket/runs")
    secrets = {form for each in (password, *values) if len(each) >= 4 for form in (each, unquote(each))}
    return Address(f"{scheme}://{rest}", scheme, shown, tuple(sorted(secrets, key=len, reverse=True)))


def credentials(scheme: str) -> str:
    known = {
        "s3": "credentials come from AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws",
        "gs": "credentials come from `gcloud auth application-default login` or GOOGLE_APPLICATION_CREDENTIALS",
        "sftp": "keys come from ssh-agent and ~/.ssh; the host must be in ~/.ssh/known_hosts (connect once with ssh)",
    }
    return known.get(scheme, "credentials come from the settings of fsspec")


def usable(part: str) -> bool:
    """Whether a name can be that of a file or folder on every system, and of nothing else."""
    return (
        part not in ("", ".", "..")
        and part.isprintable()
        and not set(part) & set('\\:*?"<>|')
        and part[-1] not in ". "
        and not _DEVICE.fullmatch(part)
        and len(part.encode()) <= 200
    )
