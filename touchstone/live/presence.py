"""How a running `touchstone serve` lets other commands know that it is there: a private file, verified over HTTP.

The file holds the server's address and a token. Whoever found the file asks the address to sign a random challenge with
that token: a server that died, or another program on its old port, cannot. The token itself is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

PROOF_URL: Final = "/-/touchstone"
TIMEOUT_S: Final = 2.0
_STATE_DIR: Final = ".touchstone"
_MAX_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class Presence:
    """A server that covers a bundle."""

    url: str
    """The site's root, with a final slash."""
    runs: Path
    """Absolute; every bundle below it has its pages there."""


def proof(token: str, challenge: str) -> str:
    """What only somebody who knows the token can answer to a challenge (hex)."""
    return hmac.new(token.encode(), challenge.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


@contextmanager
def announced(home: Path, url: str, runs: Path) -> Iterator[str]:
    """While the context lasts, a file below `home` tells of the server at `url`; yields the token that it needs.

    A folder that cannot be written costs only that: nobody finds the server.
    """
    token = secrets.token_urlsafe(32)
    path = home / _STATE_DIR / f"serve-{os.getpid()}.json"
    text = json.dumps({"url": url, "token": token, "runs": str(runs.resolve()), "pid": os.getpid()})
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_private(path, text.encode())
    try:
        yield token
    finally:
        with suppress(OSError):
            path.unlink()


def _write_private(path: Path, data: bytes) -> None:
    """A file that only its owner can read, from its first moment on; readers meet all of it or none."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def covering(home: Path, bundle: Path) -> Presence | None:
    """A running server, announced below `home`, whose site holds this bundle. Stale announcements are removed."""
    for path in sorted((home / _STATE_DIR).glob("serve-*.json")):
        found = _read(path)
        if found is None:
            continue
        presence, token = found
        if not bundle.resolve().is_relative_to(presence.runs):
            continue
        verified = _verified(presence.url, token)
        if verified:
            return presence
        if verified is False:
            with suppress(OSError):
                path.unlink()
    return None


def _read(path: Path) -> tuple[Presence, str] | None:
    """What a file announces; None for one that is broken, or that somebody else could have written."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            if sys.platform != "win32" and (stat.st_uid != os.geteuid() or stat.st_mode & 0o077):
                return None
            data = json.loads(file.read(_MAX_BYTES))
        presence = Presence(str(data["url"]), Path(str(data["runs"])))
        return (presence, str(data["token"])) if presence.runs.is_absolute() else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _verified(url: str, token: str) -> bool | None:
    """Whether the server that wrote the token answers; None if nobody answered in time."""
    challenge = secrets.token_urlsafe(16)
    try:
        status, body = fetch(url, f"{PROOF_URL}?challenge={quote(challenge)}")
    except TimeoutError:
        return None
    except (OSError, ValueError):
        return False
    return status == 200 and hmac.compare_digest(body.strip(), proof(token, challenge).encode())


def fetch(url: str, target: str, timeout_s: float = TIMEOUT_S) -> tuple[int, bytes]:
    """Status and at most the first kilobyte of a GET on a server of ours; no proxy, no redirect is followed.

    Raises ValueError for an address that is not plain HTTP on an address literal, else OSError.
    """
    import http.client

    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ValueError(url)
    if parts.hostname != "localhost":
        ipaddress.ip_address(parts.hostname)
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, response.read(1024)
    except http.client.HTTPException as error:
        raise ConnectionError(f"{url}: this is no answer") from error
    finally:
        connection.close()
