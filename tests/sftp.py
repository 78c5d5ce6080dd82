"""A real SFTP server on loopback that shows one folder to one key.

As a program: `python -m tests.sftp FOLDER KEYS` makes host and client keys in KEYS, prints its port and serves until
its standard input ends.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sftp_server(folder: Path, home: Path) -> Iterator[int]:
    """Its port; `home` becomes a home folder whose `.ssh` has the key and knows the host."""
    ssh = home / ".ssh"
    ssh.mkdir(parents=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.sftp", str(folder), str(ssh)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.kill()


async def serve(folder: Path, keys: Path) -> None:
    import asyncssh

    for name in ("host", "id_ed25519"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(keys / name)
        key.write_public_key(keys / f"{name}.pub")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(keys / "host")],
        authorized_client_keys=str(keys / "id_ed25519.pub"),
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(folder).encode()),
    )
    port = server.get_port()
    public = (keys / "host.pub").read_text()
    (keys / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}")
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
