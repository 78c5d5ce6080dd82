"""Runs that lie elsewhere, against real servers on loopback: what is fetched, what is not, and what is said."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders
from tests.conftest import Cli
from tests.making import make_bundle
from tests.s3 import CREDENTIALS, S3, s3_server
from tests.sftp import sftp_server
from tests.watching import answers, ask, page, put_away, wait_for
from touchstone.errors import InputError, MachineError
from touchstone.store.address import parse_address
from touchstone.store.remote import OVERLAP, PIECE, Mirror, chosen

NAME = "2026-01-01_000000_eval_probe"


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as running:
        yield running


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> S3:
    """The server, with a bucket of the test's own."""
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    server.bucket(bucket(request))
    server.served()
    return server


def bucket(request: pytest.FixtureRequest) -> str:
    return "b" + "".join(char if char.isalnum() else "-" for char in request.node.name.lower())[-50:].strip("-")


@pytest.fixture
def where(s3: S3, request: pytest.FixtureRequest) -> str:
    """Bucket and prefix."""
    return f"{bucket(request)}/team/runs"


def mirror_of(where: str, home: Path) -> Mirror:
    return Mirror(parse_address(f"s3://{where}"), home / ".touchstone")


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lines(count: int) -> bytes:
    return b"".join(b'{"n": %9d, "text": "%s"}\n' % (n, b"x" * 970) for n in range(count))


# -- bit by bit


def test_a_log_that_grows_is_fetched_from_where_we_left_it(s3: S3, where: str, tmp_path: Path) -> None:
    old, new = lines(5_000), lines(5_050)
    s3.put(f"{where}/{NAME}/events.jsonl", old)
    s3.put(f"{where}/{NAME}/bundle.yaml", b"schema: 1\n")
    mirror = mirror_of(where, tmp_path)
    mirror.pull()
    first = s3.served()
    assert sum(size for path, size in first if path.endswith("events.jsonl")) == len(old)
    assert max(size for _, size in first) <= PIECE < len(old)

    s3.put(f"{where}/{NAME}/events.jsonl", new)
    grown = mirror_of(where, tmp_path).pull()
    then = s3.served()
    assert {path for path, _ in then} == {f"/{where}/{NAME}/events.jsonl"}
    assert sum(size for _, size in then) == grown.bytes == len(new) - len(old) + OVERLAP
    assert (mirror.folder / NAME / "events.jsonl").read_bytes() == new

    assert mirror.pull().changed == 0 and mirror_of(where, tmp_path).pull().changed == 0 and s3.served() == []


def test_what_is_not_a_longer_version_of_ours_is_fetched_anew(s3: S3, where: str, tmp_path: Path) -> None:
    mirror, log = mirror_of(where, tmp_path), f"{where}/{NAME}/answers.jsonl"
    for data in (b"one\ntwo\n", b"one\nTWO\n", b"one\n", b"ONE\ntwo\nthree\n", b"", b"four\n"):
        s3.put(log, data)
        mirror.pull()
        assert (mirror.folder / NAME / "answers.jsonl").read_bytes() == data
    s3.put(f"{where}/other/pack.yaml", b"id: x\n")
    mirror.pull()
    s3.delete(log)
    mirror.pull()
    assert tree(mirror.folder) == {"other/pack.yaml": b"id: x\n"} and not (mirror.folder / NAME).exists()


def test_a_fetch_that_breaks_off_goes_on_where_it_was(s3: S3, where: str, tmp_path: Path) -> None:
    data = lines(9_000)
    s3.put(f"{where}/{NAME}/events.jsonl", data)
    mirror = mirror_of(where, tmp_path)
    s3.fail(503, after=2)
    with pytest.raises(MachineError, match="cannot answer now"):
        mirror.pull()
    s3.fail(None)
    s3.served()
    mirror_of(where, tmp_path).pull()
    assert sum(size for _, size in s3.served()) <= len(data) - 2 * PIECE + OVERLAP
    assert (mirror.folder / NAME / "events.jsonl").read_bytes() == data


def test_a_mirror_that_lost_its_memory_fetches_what_is_missing(s3: S3, where: str, tmp_path: Path) -> None:
    s3.put(f"{where}/{NAME}/events.jsonl", lines(1000))
    mirror = mirror_of(where, tmp_path)
    mirror.pull()
    (mirror.place / "state.json").write_text("{ not ours")
    s3.served()
    log = mirror.folder / NAME / "events.jsonl"
    os.truncate(log, 500_000)
    mirror_of(where, tmp_path).pull()
    assert log.read_bytes() == lines(1000)
    assert sum(size for _, size in s3.served()) == len(lines(1000)) - 500_000 + OVERLAP


def test_several_at_once_do_not_get_into_each_others_way(s3: S3, where: str, tmp_path: Path) -> None:
    s3.put(f"{where}/{NAME}/events.jsonl", lines(3000))
    failed: list[Exception] = []

    def pull() -> None:
        try:
            mirror_of(where, tmp_path).pull()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=pull) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed and sum(size for _, size in s3.served()) == len(lines(3000))
    assert (mirror_of(where, tmp_path).folder / NAME / "events.jsonl").read_bytes() == lines(3000)


# -- nothing that the other side says leads out of the mirror


HOSTILE = [
    "../answers.jsonl", "a/../../pack.yaml", "/etc/pack.yaml", "./pack.yaml", "a//pack.yaml", "a\\..\\pack.yaml",
    "C:/pack.yaml", "nul/pack.yaml", "COM1.txt/pack.yaml", "a./pack.yaml", "a /pack.yaml", "x\0y/pack.yaml",
    "x\ny/pack.yaml", f"{'n' * 300}/pack.yaml", "/".join("d" * 60) + "/pack.yaml", "answers.jsonl/x/pack.yaml",
    "Pack.yaml/pack.yaml", "other.exe", "a/.bashrc", ".git/pack.yaml", "old.old/pack.yaml", "\ud800/pack.yaml",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_lead_elsewhere_are_left_out(name: str) -> None:
    found, _ = chosen([{"name": f"b/runs/{name}", "size": 1, "type": "file"}], "b/runs")
    assert found == {}


@given(st.lists(st.tuples(st.text(), st.sampled_from(["pack.yaml", "Pack.yaml", "answers.jsonl", ""])), max_size=5))
def test_whatever_is_listed_names_stay_below_the_mirror(names: list[tuple[str, str]]) -> None:
    listing = [{"name": f"b/runs/{folder}/{name}", "size": 1, "type": "file"} for folder, name in names]
    found, notes = chosen(listing, "b/runs")
    base = Path("/mirror/runs")
    for name in found:
        path = Path(os.path.normpath(base / name))
        assert path.is_relative_to(base) and path.relative_to(base).as_posix() == name
    assert len({name.casefold() for name in found}) == len(found)
    assert all(note.isprintable() for note in notes)


def test_links_other_sizes_and_what_is_beside_the_folder_are_no_files() -> None:
    listing: list[dict[str, Any]] = [
        {"name": "b/runs/a/pack.yaml", "size": 1, "type": "link"},
        {"name": "b/runs/b/pack.yaml", "size": None, "type": "file"},
        {"name": "b/runs/c/pack.yaml", "size": -1, "type": "file"},
        {"name": "b/runs2/pack.yaml", "size": 1, "type": "file"},
        {"name": 7, "size": 1, "type": "file"},
    ]
    assert chosen(listing, "b/runs")[0] == {}


def test_only_files_of_runs_are_fetched_and_no_link_is_followed(s3: S3, where: str, tmp_path: Path) -> None:
    for name in ("notes.txt", f"{NAME}/.bashrc", f"{NAME}.old/pack.yaml", f"{NAME}/big.bin"):
        s3.put(f"{where}/{name}", b"x")
    s3.put(f"{where}/{NAME}/pack.yaml", b"p" * (17 << 20))
    s3.put(f"{where}/{NAME}/answers.jsonl", b"a\n")
    s3.put(f"{where}/nul/answers.jsonl", b"a\n")
    mirror = mirror_of(where, tmp_path)
    mirror.prepare()
    outside = tmp_path / "mine.txt"
    outside.write_bytes(b"mine")
    (mirror.folder / NAME).mkdir()
    (mirror.folder / NAME / "answers.jsonl").symlink_to(outside)
    notes = mirror.pull().notes
    there = tree(mirror.folder)
    assert there.keys() == {f"{NAME}/pack.yaml", f"{NAME}/answers.jsonl"} and outside.read_bytes() == b"mine"
    assert len(there[f"{NAME}/pack.yaml"]) == (16 << 20) + 1
    assert stat.S_ISREG(os.lstat(mirror.folder / NAME / "answers.jsonl").st_mode)
    assert notes == [f"s3://{where}/nul/answers.jsonl: {notes[0].partition(': ')[2]}"]


# -- what is said


def test_what_goes_wrong_is_said_in_a_line_and_forgets_nothing(s3: S3, where: str, tmp_path: Path) -> None:
    s3.put(f"{where}/{NAME}/answers.jsonl", b"a\n")
    mirror = mirror_of(where, tmp_path)
    mirror.pull()

    def fault(look: Callable[[], object]) -> str:
        with pytest.raises(MachineError) as caught:
            look()
        text = str(caught.value)
        assert "\n" not in text and text.startswith("s3://") and CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text
        return text

    s3.fail(403)
    assert "no permission" in fault(mirror.pull) and str(mirror.folder) in fault(mirror.pull)
    s3.fail(503)
    assert "try again in a while" in fault(mirror.pull)
    s3.fail(None)
    assert "no such bucket" in fault(mirror_of("never-made-this/runs", tmp_path).pull)
    assert "nothing in it" in fault(mirror_of(f"{where}2", tmp_path).pull)
    s3.delete(f"{where}/{NAME}/answers.jsonl")
    assert "nothing in it" in fault(mirror.pull)
    assert tree(mirror.folder) == {f"{NAME}/answers.jsonl": b"a\n"}


def test_no_room_on_the_disk_is_said_before_anything_is_fetched(
    s3: S3, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(f"{where}/{NAME}/answers.jsonl", lines(100))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 100_000_010))
    with pytest.raises(MachineError, match="free some space"):
        mirror_of(where, tmp_path).pull()
    assert s3.served() == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/runs/", "s3://bucket/runs"),
        ("s3a://bucket", "s3://bucket"),
        ("sftp://me:geheim%2Fes@host:2222/runs", "sftp://me:[hidden]@host:2222/runs"),
        ("ssh://me@host/runs", "sftp://me@host/runs"),
        ("webdav://host/runs?token=geheim/es", "webdav://host/runs?[hidden]"),
    ],
)
def test_an_address_is_shown_without_its_secrets(text: str, shown: str) -> None:
    address = parse_address(text)
    assert str(address) == shown and "geheim" not in repr(address)
    assert "geheim" not in address.hide(f"nobody at {text} with {unquote(text)}") or address.secrets == ()


@pytest.mark.parametrize(
    "text", ["s3://key:secret-word@bucket/runs", "simplecache::s3://b/r", "file:///runs", "s3://", "s3://a\nb/c"]
)
def test_an_address_that_can_be_none_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_address(text)
    assert "secret-word" not in str(caught.value)


def test_the_packages_are_named_where_they_are_missing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fsspec'] = None; from touchstone.cli import main; sys.argv[0] = 'touchstone'; main()"
    )
    for command in (["build"], ["serve", "--no-open", "--port", "0"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *command, "--runs", "s3://bucket/runs"],
            capture_output=True, text=True, cwd=tmp_path, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert "pip install 'touchstone-judge[remote]'" in done.stderr


def test_commands_that_write_refuse_and_say_how_to_copy(cli: Cli) -> None:
    (cli.home / "touchstone.yaml").write_text("runs: s3://bucket/runs\n")
    for command in (["eval", "--runs", "s3://bucket/x"], ["judge", "--bundle", "s3://bucket/x"], ["judge"]):
        said = cli(*command, code=None)
        assert said.code in (1, 2) and "aws s3 sync s3://bucket/" in said.err, said.err
    assert cli("build", "--runs", "what://ever/runs", code=1).err.startswith("touchstone: what://ever/runs: ")


# -- the commands


def test_a_site_from_elsewhere_is_the_one_from_here(s3: S3, where: str, cli: Cli) -> None:
    bundle = make_bundle(cli.home / "local" / "runs" / NAME, judged=10)
    s3.put_folder(cli.home / "local" / "runs", where)
    cli("build", "--runs", f"s3://{where}", "--out", "there")
    cli("build", "--runs", "local/runs", "--out", "here")
    assert tree(cli.home / "there") == tree(cli.home / "here") and len(tree(cli.home / "there")) > 20
    with (bundle / "judgements.jsonl").open("ab") as log:
        log.write(b"no json\n")
    s3.put_folder(bundle, f"{where}/{NAME}")
    found = cli("check", f"s3://{where}/{NAME}", code=1).out
    assert found.startswith(f"s3://{where}/{NAME}/judgements.jsonl:11: ")


def test_serve_follows_what_grows_elsewhere_and_lives_through_faults(s3: S3, where: str, cli: Cli) -> None:
    bundle = builders.bundle(cli.home / "elsewhere" / NAME, answers=[builders.answer("p1", "First.")])
    s3.put_folder(bundle, f"{where}/{NAME}")
    (cli.home / "touchstone.yaml").write_text(f"runs: s3://{where}\n")
    s3.fail(503)
    process = cli.start("serve", "--port", "0", "--no-open")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert where in fault_at(url) and "try again" in fault_at(url)
        s3.fail(None)
        wait_for(lambda: ask(url)[0] == 200 and NAME in page(url))
        builders.append(bundle / "judge_events.jsonl", builders.event("p1", 4, rationale="Came later."))
        s3.put_folder(bundle, f"{where}/{NAME}")
        s3.fail(403)
        wait_for(lambda: "no permission" in fault_at(url))
        s3.fail(None)
        verdicts = f"{url}runs/{NAME}/judge/verdicts-1.html"
        wait_for(lambda: answers(verdicts) and "Came later." in page(verdicts))
        assert process.poll() is None
    finally:
        put_away(process)
        s3.fail(None)


def fault_at(url: str) -> str:
    """What the page says that stands in for all others."""
    status, _, body = ask(url)
    return body.decode() if status != 200 else ""


def test_over_sftp_what_grows_is_read_from_where_we_left_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote, home = tmp_path / "remote", tmp_path / "home"
    log = remote / "runs" / NAME / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(lines(2000))
    (log.parent / "answers.jsonl").symlink_to(log)
    monkeypatch.setenv("HOME", str(home))
    with sftp_server(remote, home) as port:
        mirror = Mirror(parse_address(f"sftp://me@127.0.0.1:{port}/runs"), tmp_path / ".touchstone")
        mirror.pull()
        assert tree(mirror.folder) == {f"{NAME}/events.jsonl": lines(2000)}
        with log.open("ab") as file:
            file.write(b"more\n")
        assert mirror.pull().bytes == OVERLAP + 5 and mirror.pull().changed == 0
        assert tree(mirror.folder) == {f"{NAME}/events.jsonl": lines(2000) + b"more\n"}
        (home / ".ssh" / "known_hosts").write_text("")
        stranger = Mirror(parse_address(f"sftp://me:geheim@127.0.0.1:{port}/runs"), tmp_path / "other")
        with pytest.raises(MachineError, match="known_hosts") as caught:
            stranger.pull()
        assert "geheim" not in str(caught.value)
    with pytest.raises(MachineError, match="check the network"):
        mirror.pull()
