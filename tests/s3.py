"""A real S3 server on loopback (moto's) that counts what it serves, and can be told to fail.

As a program: `python -m tests.s3` prints its port and serves until its standard input ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "a-secret-of-ours"}


@dataclass(frozen=True)
class S3:
    """A running server."""

    url: str

    @property
    def env(self) -> dict[str, str]:
        """How boto finds it, and nothing else."""
        nowhere = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}
        return {
            **CREDENTIALS, **nowhere, "AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
        request = Request(
            self.url + path, data, {"Authorization": signed, "Content-Type": "application/octet-stream"}, method=method
        )
        with urlopen(request, timeout=30) as response:
            return bytes(response.read())

    def bucket(self, name: str) -> None:
        self._ask("PUT", f"/{name}")

    def put(self, path: str, data: bytes) -> None:
        """`path`: bucket and key."""
        self._ask("PUT", "/" + quote(path), data)

    def delete(self, path: str) -> None:
        self._ask("DELETE", "/" + quote(path))

    def put_folder(self, folder: Path, path: str) -> None:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{path}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def fail(self, status: int | None, after: int = 0) -> None:
        """Answer everything with this status, `after` so many GETs of objects; None: as it should be."""
        self._ask("POST", f"/-/fail/{status or 0}/{after}")

    def served(self) -> list[tuple[str, int]]:
        """(path, bytes of the body) of each GET of an object since the last call."""
        return [(path, size) for path, size in json.loads(self._ask("POST", "/-/served"))]


@contextmanager
def s3_server() -> Iterator[S3]:
    """The server as a process of its own, for as long as the context lasts."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.s3"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=Path(__file__).parent.parent,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        try:
            yield S3(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.stdin.close()
            process.kill()


class _Counting:
    """WSGI in front of moto's application."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.status, self.good = 0, 0
        self.seen: list[tuple[str, int]] = []

    def __call__(self, environ: Mapping[str, Any], start: Any) -> Iterable[bytes]:
        path = str(environ["PATH_INFO"])
        if path.startswith("/-/"):
            body = b""
            if path == "/-/served":
                body, self.seen = json.dumps(self.seen).encode(), []
            else:
                self.status, self.good = map(int, path.split("/")[3:])
            start("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        is_object = environ["REQUEST_METHOD"] == "GET" and path.count("/") > 1
        if self.status and is_object and self.good > 0:
            self.good -= 1
        elif self.status and (is_object or self.good <= 0):
            code = {403: "AccessDenied", 503: "ServiceUnavailable"}[self.status]
            body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            start(f"{self.status} No", [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
            return [body]
        parts = list(self.inner(environ, start))
        if is_object:
            self.seen.append((path, sum(map(len, parts))))
        return parts


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = _Counting(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
