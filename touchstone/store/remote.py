"""Runs that lie elsewhere (s3://, gs://, sftp://), mirrored into a folder of this machine; all others read only that.

What grows is fetched from where we left it, what is another one is fetched anew; both in pieces, straight to disk. Only
the files of bundles are fetched, and nothing that the other side calls its files leads out of the mirror. This is the
only module that knows fsspec.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from touchstone.errors import BusyError, MachineError, TouchstoneError, brief
from touchstone.store.address import COPY, Address, credentials, usable
from touchstone.store.bundles import ARTIFACTS, LOGS, ignored
from touchstone.store.write import machine_error, refuse_link, replace_file, retry_locked

HOME: Final = "remote"
"""The folder below `.touchstone/` where the mirrors are."""
PIECE: Final = 4 << 20
"""Bytes that are asked for, and held, at once for each file."""
OVERLAP: Final = 1 << 16
"""So many of the last bytes that we have are compared before more is put behind them."""
MAX_DOCUMENT: Final = (16 << 20) + 1
"""Bytes of a document; nobody reads more (`read_document`), this is enough to say that it is too long."""
AT_ONCE: Final = 8
"""Files that are fetched at once, where the other side allows it."""
TRIES: Final = 3
"""How often a file that changes under our hands is tried."""
DEEPEST: Final = 32
"""Folders below each other."""
SPARE: Final = 100_000_000
"""Bytes that stay free on the disk."""
CONNECT_S: Final = 10
READ_S: Final = 20
WAIT_S: Final = 600
SAVE_S: Final = 5.0
MANY: Final = 20_000_000
"""Bytes from which it is said that something is being fetched."""
TOLD: Final = 3
"""Files that are named where many cannot be fetched."""

_STAMPS: Final = (
    "ETag",
    "md5Hash",
    "crc32c",
    "etag",
    "generation",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
)
"""What of a listing stands for the content of a file, the most exact first."""


# -- names that somebody else chose


def _local_name(relative: str) -> str | None:
    """Where in the mirror a file goes; None for what is no file of a bundle, or has a name that we do not take."""
    *folders, name = relative.split("/")
    if name not in ARTIFACTS or len(folders) > DEEPEST:
        return None
    fit = all(usable(part) and not ignored(part) and part.lower() not in ARTIFACTS for part in folders)
    return relative if fit else None


def _is_skipped(relative: str) -> bool:
    """Whether a file of a bundle is left out because of its name, and not on purpose."""
    *folders, name = relative.split("/")
    return name in ARTIFACTS and not any(map(ignored, folders)) and _local_name(relative) is None


@dataclass(frozen=True, slots=True)
class Entry:
    """A file on the other side."""

    path: str
    """As fsspec calls it."""
    size: int
    stamp: str
    """Stands for its content."""


def chosen(listing: Iterable[Mapping[str, Any]], root: str) -> tuple[dict[str, Entry], list[str]]:
    """Name in the mirror to file, and remarks about what is left out. Nothing in a listing is trusted."""
    found: dict[str, Entry] = {}
    taken: dict[str, str] = {}
    odd: list[str] = []
    prefix = root.rstrip("/") + "/"
    for info in listing:
        path, size = info.get("name"), info.get("size")
        if info.get("type") != "file" or not isinstance(path, str) or not path.startswith(prefix):
            continue
        relative = path[len(prefix) :]
        name = _local_name(relative)
        if name is None or not isinstance(size, int) or size < 0:
            if name is not None or _is_skipped(relative):
                odd.append(relative)
            continue
        if taken.setdefault(unicodedata.normalize("NFC", name).casefold(), name) != name:
            odd.append(relative)
            continue
        stamp = next((f"{key}={info[key]}" for key in _STAMPS if info.get(key)), "")
        found[name] = Entry(path, size, stamp)
    return found, _told(
        odd, "has a name or a size that no file here can have, or one that differs from another in case"
    )


def _told(names: list[str], what: str) -> list[str]:
    notes = [f"{brief(name, 120)}: {what}; left out" for name in names[:TOLD]]
    if len(names) > TOLD:
        notes.append(f"and {len(names) - TOLD} more files like that")
    return notes


# -- the mirror


@dataclass(slots=True)
class Pulled:
    """What one look at the other side brought."""

    changed: int = 0
    """Files that were fetched, grew, or went away."""
    bytes: int = 0
    notes: list[str] = field(default_factory=list)
    """What a person should know, a line each."""


class Unusable(MachineError):
    """The address can never be used: packages are missing, or nobody knows what it means."""


class _Moved(Exception):
    """The file on the other side is no longer the one that was listed."""


class Mirror:
    """The runs at one address, as a folder of this machine that `pull` brings up to date."""

    def __init__(self, address: Address, state: Path) -> None:
        """`state`: the folder for what touchstone keeps between its runs (`.touchstone`)."""
        self.address = address
        # Not of the password: a new one leads to the same runs.
        self.place = state / HOME / hashlib.sha256(address.shown.encode()).hexdigest()[:12]
        self.folder = self.place / address.name
        self._state = self.place / "state.json"
        self._files: dict[str, tuple[int, str]] = {}
        """Name to (size, stamp) of what was fetched."""
        self._fs: Any = None
        self._root = ""
        self._saved = 0.0
        self._text = ""
        """The state as it was read or written last."""
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Make the folder. Raises MachineError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise machine_error(self.folder, error) from error

    def pull(self, say: Callable[[str], None] = lambda text: None) -> Pulled:
        """Fetch what is new. Raises TouchstoneError; what was fetched before stays then as it was.

        `say` hears of a fetch that takes a while.
        """
        self.prepare()
        with self._alone():
            try:
                return self._pull(say)
            except TouchstoneError:
                raise
            except Exception as error:
                # Whatever the libraries of the services raise: it is their business and the user's, never a traceback.
                self._fs = None
                raise self._explained(error) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One at a time: `serve` and `build` may well look at the same runs."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.place / ".lock", timeout=WAIT_S)
        try:
            refuse_link(self.place / ".lock")
            lock.acquire()
        except Timeout:
            raise BusyError(
                f"{self.address}: another touchstone process has been fetching it for long; end it"
            ) from None
        except OSError as error:
            raise machine_error(self.place, error) from error
        try:
            yield
        finally:
            lock.release()

    def _pull(self, say: Callable[[str], None]) -> Pulled:
        self._load()
        done = Pulled()
        for left in reversed(range(TRIES)):
            there, notes = self._listing()
            moved: list[str] = []
            failed: dict[str, str] = {}
            try:
                done.changed += self._remove_others(there)
                self._fetch_all(there, done, moved, failed, say)
            finally:
                self._save()
            if not moved or not left:
                break
        notes += [f"{name}: {why}" for name, why in sorted(failed.items())[:TOLD]]
        if len(failed) > TOLD:
            notes.append(f"and {len(failed) - TOLD} more files that could not be read")
        notes += [
            f"{name}: changes faster than it can be read; it is as it was before" for name in sorted(moved)[:TOLD]
        ]
        done.notes = [f"{self.address}/{note}" for note in notes]
        return done

    # -- the other side

    def _connect(self) -> None:
        if self._fs is not None:
            return
        scheme = self.address.scheme
        try:
            if scheme == "sftp":
                self._fs, self._root = _sftp(self.address.url)
                return
            import fsspec

            self._fs, self._root = fsspec.core.url_to_fs(
                self.address.url, skip_instance_cache=True, **_patience(scheme)
            )
            if hasattr(self._fs, "retries"):
                self._fs.retries = 2
        except ImportError as error:
            more = "" if scheme in COPY else f"; {brief(error, 120)}"
            raise Unusable(
                f"{self.address}: reading runs there takes more packages: pip install 'touchstone-judge[remote]'{more}"
            ) from error
        except ValueError as error:
            # fsspec's word for a scheme that it does not know, among others.
            why = brief(self.address.hide(str(error)), 120)
            raise Unusable(f"{self.address}: {why}; write an address like s3://, gs:// or sftp://") from error

    def _listing(self) -> tuple[dict[str, Entry], list[str]]:
        """What is there. Raises MachineError for nothing at all: that is no reason to forget what was."""
        self._connect()
        self._fs.invalidate_cache()
        seen = False

        def every() -> Iterator[Mapping[str, Any]]:
            nonlocal seen
            for info in self._infos():
                seen = True
                yield info

        found = chosen(every(), self._root)
        if not seen and not (self._fs.exists(self._root) and not _finds_all(self._fs)):
            raise FileNotFoundError(self._root)
        return found

    def _infos(self) -> Iterator[Mapping[str, Any]]:
        if _finds_all(self._fs):
            # One list of everything below, by the thousand.
            yield from self._fs.find(self._root, detail=True).values()
            return
        for _, folders, files in self._fs.walk(self._root, maxdepth=DEEPEST + 2, detail=True, on_error="raise"):
            for name in [name for name in folders if ignored(name)]:
                del folders[name]
            yield from files.values()

    def _explained(self, error: BaseException) -> MachineError:
        """In plain words: where, what, and the next step."""
        text = _plain(error, self.address.scheme)
        if text is None:
            text = f"{type(error).__name__}: {brief(self.address.hide(str(error)), 200)}"
        before = ""
        if any(self.folder.iterdir()):
            before = f" (what was fetched before is in {self.folder}; --runs with that folder builds from it)"
        return MachineError(f"{self.address}: {text}{before}")

    # -- files

    def _fetch_all(
        self,
        there: dict[str, Entry],
        done: Pulled,
        moved: list[str],
        failed: dict[str, str],
        say: Callable[[str], None],
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor

        due = {name: entry for name, entry in there.items() if not self._is_current(name, entry)}
        if not due:
            return
        self._check_room(due, say)

        def fetch(name: str) -> None:
            try:
                size = self._fetch(name, due[name])
            except _Moved:
                moved.append(name)
            except TouchstoneError:
                raise
            except Exception as error:
                if isinstance(error, FileNotFoundError) or type(error).__name__ == "FileExpired":
                    moved.append(name)
                elif isinstance(error, PermissionError):
                    failed[name] = "no permission to read it"
                else:
                    raise
            else:
                with self._lock:
                    done.bytes += size
                    done.changed += 1
                    self._files[name] = due[name].size, due[name].stamp
                    if time.monotonic() > self._saved + SAVE_S:
                        self._save()

        with ThreadPoolExecutor(AT_ONCE if getattr(self._fs, "async_impl", False) else 1) as pool:
            running = [pool.submit(fetch, name) for name in sorted(due)]
            try:
                for each in running:
                    each.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _check_room(self, due: dict[str, Entry], say: Callable[[str], None]) -> None:
        needed = sum(max(0, _wanted(name, entry) - max(0, self._have(name))) for name, entry in due.items())
        free = shutil.disk_usage(self.place).free
        if needed > free - SPARE:
            raise MachineError(
                f"{self.folder}: {needed / 1e6:.0f} MB are to be fetched from {self.address}, "
                f"{free / 1e6:.0f} MB are free on the disk; free some space, or name a folder with fewer runs"
            )
        if needed > MANY:
            say(f"{self.address}: fetching {needed / 1e6:.0f} MB")

    def _have(self, name: str) -> int:
        """Bytes of an ordinary file in the mirror; -1 if there is none."""
        try:
            stat = os.lstat(self.folder / name)
        except OSError:
            return -1
        return stat.st_size if (stat.st_mode & 0o170000) == 0o100000 else -1

    def _is_current(self, name: str, entry: Entry) -> bool:
        return self._files.get(name) == (entry.size, entry.stamp) and self._have(name) == _wanted(name, entry)

    def _fetch(self, name: str, entry: Entry) -> int:
        """Bring one file up to date; the bytes that were fetched for it. Raises what the libraries raise."""
        target, have, wanted = self.folder / name, self._have(name), _wanted(name, entry)
        grows = name.rsplit("/", 1)[-1] in LOGS
        known = self._files.get(name)
        # Same size, another stamp: something in the middle was changed.
        continues = grows and 0 < have <= wanted and (have < wanted or known is None)
        with self._fs.open(entry.path, "rb", cache_type="none") as file:
            back = min(have, OVERLAP)
            if continues and _read(file, have - back, back) == _last(target, back):
                return back + self._append(file, target, have, wanted)
            return self._anew(file, target, wanted, grows and not os.path.lexists(target))

    def _append(self, file: Any, target: Path, start: int, end: int) -> int:
        with _opened(target) as out:
            for at in range(start, end, PIECE):
                data = _read(file, at, min(PIECE, end - at))
                with _written(target):
                    _write(out, data)
        return end - start

    def _anew(self, file: Any, target: Path, size: int, resumable: bool) -> int:
        with _written(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        if resumable:
            # Nobody has seen it yet: what breaks off half-way is a beginning to go on from.
            return self._append(file, target, 0, size)
        beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with _written(beside):
                beside.unlink(missing_ok=True)
            self._append(file, beside, 0, size)
            with _written(target):
                retry_locked(lambda: beside.replace(target))
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        return size

    def _remove_others(self, there: Mapping[str, Entry]) -> int:
        """Remove what is no longer on the other side, and folders that are empty then."""
        removed = 0
        for folder, folders, files in os.walk(self.folder, topdown=False):
            for name in (*files, *(each for each in folders if (Path(folder) / each).is_symlink())):
                path = Path(folder) / name
                relative = path.relative_to(self.folder).as_posix()
                if relative not in there:
                    with _written(path):
                        retry_locked(lambda path=path: path.unlink(missing_ok=True))  # type: ignore[misc]
                    self._files.pop(relative, None)
                    removed += 1
            if Path(folder) != self.folder:
                with suppress(OSError):
                    Path(folder).rmdir()
        self._files = {name: known for name, known in self._files.items() if name in there}
        return removed

    # -- what is remembered

    def _load(self) -> None:
        text = ""
        with suppress(OSError, ValueError):
            text = self._state.read_text(encoding="utf-8")
        if text and text == self._text:
            return
        self._files, self._text = {}, text
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            data = json.loads(text)
            self._files = {str(name): (int(size), str(stamp)) for name, (size, stamp) in data["files"].items()}

    def _save(self) -> None:
        self._saved = time.monotonic()
        text = json.dumps({"address": self.address.shown, "files": self._files})
        if text == self._text and self._state.exists():
            return
        with _written(self._state):
            replace_file(self._state, text.encode("utf-8"))
        self._text = text


def _finds_all(fs: Any) -> bool:
    """Whether everything below a folder is one list, as object stores have it; else it is asked folder by folder."""
    if not getattr(fs, "async_impl", False):
        return False
    from fsspec.asyn import AsyncFileSystem

    # The general one leaves out what could not be listed, which would look as if it was gone.
    return type(fs)._find is not AsyncFileSystem._find


def _wanted(name: str, entry: Entry) -> int:
    return entry.size if name.rsplit("/", 1)[-1] in LOGS else min(entry.size, MAX_DOCUMENT)


def _read(file: Any, at: int, size: int) -> bytes:
    """Exactly these bytes. Raises _Moved if they are not there."""
    if size == 0:
        return b""
    if hasattr(file, "readv"):
        # SFTP: all requests at once; one after the other each would wait for the answer to the last one.
        if file.stat().st_size < at + size:
            raise _Moved
        data = b"".join(file.readv([(at, size)]))
    else:
        file.seek(at)
        data = bytes(file.read(size))
    if len(data) != size:
        raise _Moved
    return data


def _last(path: Path, size: int) -> bytes:
    with _written(path), path.open("rb") as file:
        file.seek(-size, os.SEEK_END)
        return file.read(size)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """What the disk says against it becomes a MachineError: it is not the other side's fault."""
    try:
        yield
    except OSError as error:
        raise machine_error(path, error) from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """To be written at its end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    with _written(path):
        refuse_link(path)
        file = os.open(path, flags, 0o644)
    try:
        yield file
    finally:
        os.close(file)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


# -- the libraries of the services


def _patience(scheme: str) -> dict[str, Any]:
    """Their own is minutes long."""
    if scheme != "s3":
        return {}
    from fsspec.config import conf

    if "config_kwargs" in conf.get("s3", {}):
        return {}
    return {
        "config_kwargs": {"connect_timeout": CONNECT_S, "read_timeout": READ_S, "retries": {"max_attempts": 1}},
    }


def _sftp(url: str) -> tuple[Any, str]:
    """A connection to a host that is known: fsspec's own trusts any that answers."""
    import paramiko
    from fsspec.implementations.sftp import SFTPFileSystem

    class KnownHosts(SFTPFileSystem):  # type: ignore[misc]
        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(paramiko.RejectPolicy())
            self.client.connect(self.host, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()
            self.ftp.get_channel().settimeout(READ_S)

    parts = urlsplit(url)
    given = {"port": parts.port, "username": parts.username, "password": parts.password}
    login = {name: unquote(value) if isinstance(value, str) else value for name, value in given.items() if value}
    waits = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout"), CONNECT_S)
    fs = KnownHosts(parts.hostname or "localhost", skip_instance_cache=True, **login, **waits)
    return fs, parts.path or "/"


def _plain(error: BaseException, scheme: str) -> str | None:
    """What usually goes wrong, by what the libraries call it; None for all else."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 5:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    names = {kind.__name__ for each in chain for kind in type(each).__mro__}
    numbers = {each.errno for each in chain if isinstance(each, OSError)}
    if "NoCredentialsError" in names or "DefaultCredentialsError" in names or "ProfileNotFound" in names:
        return f"no credentials were found; {credentials(scheme)}"
    if "BadHostKeyException" in names or any("not found in known_hosts" in str(each) for each in chain):
        return "the host's key is not (or not this one) in ~/.ssh/known_hosts; connect once with ssh and check it"
    if names & {"AuthenticationException", "PasswordRequiredException", "BadAuthenticationType"}:
        return f"the login was refused; {credentials(scheme)}"
    if isinstance(error, FileNotFoundError):
        return "no such bucket or folder, or nothing in it; check the spelling"
    if isinstance(error, PermissionError) and not names & {"NoValidConnectionsError"}:
        return f"no permission; check that you may list and read there ({credentials(scheme)})"
    away = {"TimeoutError", "ConnectionError", "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError"}
    away |= {"FSTimeoutError", "gaierror", "NoValidConnectionsError", "ClientConnectorError", "ServerDisconnectedError"}
    if names & (away | {"ConnectionClosedError", "SSHException", "EOFError", "HTTPClientError", "IncompleteRead"}):
        return "nobody answers, or the connection broke off; check the network and the address, then try again"
    if numbers & {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE}:
        return "nobody answers, or the connection broke off; check the network and the address, then try again"
    if "Socket is closed" in str(error):
        return "the connection broke off; check the network, then try again"
    if errno.EBUSY in numbers or any(
        word in str(error) for word in ("SlowDown", "ServiceUnavailable", "InternalError")
    ):
        return "the service says that it cannot answer now; try again in a while"
    return None
