"""What strangers may try, where no other test has it: secrets in every place, names of folders, links, other origins.

docs/threats.md is the table of threats; the last tests here hold it to the tests that it names.
"""

from __future__ import annotations

import ast
import http.client
import io
import json
import os
import re
import socket
import threading
import time
import tomllib
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import psutil
import pytest
import yaml
from click import ClickException
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT, Cli
from tests.making import PACK, make_bundle
from tests.pages import dead_links, html_pages
from tests.poison import poison
from tests.standin import Action, Brain, Request, StandIn, error, say
from tests.test_chain import write_project
from tests.test_serve import running
from touchstone.build import build
from touchstone.cli import touchstone
from touchstone.cli.common import note
from touchstone.errors import TouchstoneError
from touchstone.live.hub import Hub
from touchstone.live.server import folder, listen
from touchstone.options import Options

KEY = "sk-l1ve/Secret+Key=0123456789"
PASSWORD = "hunter2-Hunter3"
TOKEN = "t0kenInTheAddress99"
SECRETS = (KEY, PASSWORD, TOKEN, "sk-l1ve%2FSecret")


def told(text: str | bytes) -> list[str]:
    """The secrets that a text gives away."""
    data = text.encode() if isinstance(text, str) else text
    return [secret for secret in SECRETS if secret.encode() in data]


def files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and path.name != "touchstone.yaml")


class Children:
    """The command lines of all processes below one, seen while it runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.lines: set[str] = set()

    def look(self) -> None:
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                with suppress(psutil.Error):
                    self.lines.add(" ".join(child.cmdline()))


def gossip(request: Request) -> Action:
    """A server that gives back what it was sent to prove who asks: as answer, as reason, as error."""
    echo = f"You sent {request.headers.get('authorization')} and {request.query}."
    if request.is_chat and request.chat_n % 5 == 3:
        return error(400, {"error": {"message": echo}})
    if request.is_chat and request.schema is None:
        return say(f"{echo} {KEY}", reasoning=echo, model=KEY)
    return Brain(salt=echo)(request)


def test_secrets_are_in_no_file_no_output_and_no_list_of_processes(cli: Cli) -> None:
    with StandIn(gossip) as server:
        write_project(cli.home, server, prompts=2)
        config = yaml.safe_load((cli.home / "touchstone.yaml").read_text())
        address = server.url.replace("http://", f"http://me:{PASSWORD}@") + f"?token={TOKEN}"
        for part in ("eval", "judge"):
            config[part] |= {"endpoint": address, "api_key_env": "SECRET_KEY"}
        (cli.home / "touchstone.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        process = cli.start("run", "--web", "--no-open", env={"SECRET_KEY": KEY})
        children = Children(process.pid)
        while process.poll() is None:
            children.look()
            with suppress(Exception):
                process.wait(0.05)
        out, err = process.communicate()
        assert process.returncode in (0, 1), err
        assert any(request.headers.get("authorization") == f"Bearer {KEY}" for request in server.chats)
    assert any("touchstone.webmon" in line for line in children.lines) and told("\n".join(children.lines)) == []
    assert told(out + err) == []
    assert (cli.home / ".touchstone").is_dir() and list((cli.home / "runs").iterdir())
    assert {path: found for path in files(cli.home) if (found := told(path.read_bytes()))} == {}


@pytest.mark.parametrize(
    "config",
    [
        f"eval: {{api_key: {KEY}}}",
        f"eval: {{pack: everyday, models: [m], endpoint: 'http://127.0.0.1:9', api_key_env: {KEY}}}",
        "eval: {pack: everyday, models: [m], endpoint: 'http://127.0.0.1:9', api_key_env: gsk_l1veSecretKey0123456789}",
        f"eval: {{pack: everyday, models: [m], endpoint: 'htp://me:{PASSWORD}@x'}}",
        f"eval: {{pack: everyday, models: [m], endpoint: 'http://me:{PASSWORD}@127.0.0.1:9/v1?token={TOKEN}'}}",
        f"eval: {{endpoint: [http://me:{PASSWORD}@x], temperature: {KEY}, extra: {{messages: {KEY}}}}}",
        f"eval: {{extra: {{litellm: [{{API-Key: {KEY}}}]}}}}",
        f"judge: {{endpoints: ['http://me:{PASSWORD}@x', 'http://me:{PASSWORD}@x']}}",
        f'eval: {{endpoint: "http://me:{PASSWORD}@x',
        KEY,
    ],
    ids=[
        "no such key", "key as name", "another key as name", "scheme", "nobody there", "types", "extra", "twice",
        "torn", "no mapping",
    ],
)  # fmt: skip
def test_no_error_shows_the_secret_that_it_is_about(cli: Cli, config: str) -> None:
    (cli.home / "touchstone.yaml").write_text(config, encoding="utf-8")
    done = cli("eval", code=1)
    assert done.err.startswith("touchstone: ") or "touchstone: " in done.err
    assert told(done.out + done.err) == [] and "l1ve" not in done.err


# -- names of folders that strangers chose

DEVICES = ["CON", "nul", "COM1.txt", "LPT¹", "aux.old.x"]
TWINS = ["Run", "run", "e\u0301te\u0301", "\xe9t\xe9", "paypal", "p\u0430ypal", "ﬁne", "fine", "straße", "STRASSE"]
ODD = [
    "x" * 255, "ü" * 120, "..x", "...", "a..", "a ", " a", "_site", "-rf", "%2e%2e", "..%2f..%2fx", "a\\..\\..\\b",
    "C:x", "a\nb", "\u202egnp.exe", "a\u200bb", "~", "$(id)", "assets", "data", "<b>", 'a"b', "a'b", "a&b", "a#b",
    "a?b", "a;b", "a|b", "*", "/".join(["n" * 100] * 3), "n/judge/index.html", "n",
]  # fmt: skip


def makeable(root: Path, names: list[str]) -> list[str]:
    """Those of the names that this file system takes, each as a folder of its own."""
    made: dict[int, str] = {}
    for name in names:
        with suppress(OSError, ValueError):
            (root / name).mkdir(parents=True)
            made.setdefault((root / name).stat().st_ino, name)
    return list(made.values())


@pytest.mark.parametrize("target", ["html", "obsidian"])
def test_no_name_of_a_run_leads_out_or_takes_the_place_of_another(tmp_path: Path, target: str) -> None:
    from touchstone.vault_build import build as build_notes

    runs, out = tmp_path / "in" / "runs", tmp_path / "in" / "deep" / "out"
    runs.mkdir(parents=True)
    names = makeable(runs, [*DEVICES, *TWINS, *ODD])
    assert len(names) >= 20
    for number, name in enumerate(names):
        (runs / name).rmdir()
        pack = {**PACK, "prompts": PACK["prompts"][:1], "variants": PACK["variants"][:1]}
        make_bundle(runs / name, models=[f"mark-{number}-"], pack=pack, judged=0, reports=False, events=False)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    options = Options(runs=runs, out=out, state_home=tmp_path / "in")
    assert (build if target == "html" else build_notes)(options).runs == len(names)
    state = tmp_path / "in" / ".touchstone"
    made = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path for path in made if not path.is_relative_to(out) and not path.is_relative_to(state)} == set()
    below = [path.relative_to(out).as_posix() for path in made if path.is_relative_to(out)]
    assert len({unicodedata.normalize("NFKC", path).casefold() for path in below}) == len(below)
    for path in below:
        assert all(len(part.encode()) <= 255 and part[-1] not in ". " for part in path.split("/")), path
        assert not re.search(r'[\x00-\x1f\x7f<>:"|?*\\]', path), path
    if target == "html":
        assert dead_links(out, html_pages(out)) == []
        pages = [path.read_text(encoding="utf-8") for path in (out / "runs").glob("*/index.html")]
    else:
        pages = [path.read_text(encoding="utf-8") for path in out.rglob("Run *.md")]
    for number in range(len(names)):
        assert sum(f"mark-{number}-" in page for page in pages) == 1, names[number]


# -- links in runs


KNOWN = (
    "answers.jsonl", "judgements.jsonl", "judge_events.jsonl", "reports.jsonl", "events.jsonl", "resources.jsonl",
    "self_consistency.jsonl", "bundle.yaml", "pack.yaml", "scorecard.md", "judge_quality.md", ".lock", ".lock.json",
    "judge_meta_request.md", "judge_meta_response.yaml",
)  # fmt: skip
"""What a bundle may hold, and what commands write into one."""


def say_in(*args: str) -> str:
    """What a command prints, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            touchstone.main(args=list(args), standalone_mode=False)
        except TouchstoneError as error:
            note(f"touchstone: {error}")
        except (OSError, ClickException, SystemExit) as error:
            err.write(str(error))
    return out.getvalue() + err.getvalue()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
@pytest.mark.parametrize("name", KNOWN)
def test_no_link_in_a_bundle_is_read_or_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: StandIn, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path, endpoint)
    secret = tmp_path / "secret.txt"
    secret.write_text("ssh-key-of-this-machine", encoding="utf-8")
    small = {**PACK, "prompts": PACK["prompts"][:1], "variants": PACK["variants"][:1]}
    bundle = make_bundle(tmp_path / "runs" / "evil", models=["m"], pack=small)
    (bundle / name).unlink(missing_ok=True)
    (bundle / name).symlink_to(secret)
    place = ("--bundle", str(bundle))
    for command in (
        ("judge", *place, "--events"), ("judge", *place, "--into", "next"), ("judge", *place, "--restart", "--events"),
        ("scorecard", str(bundle)), ("judge-meta", "export", str(bundle)), ("judge-meta", "ingest", str(bundle)),
        ("merge", str(bundle), "--into", "merged"), ("check", str(bundle)), ("build",),
    ):  # fmt: skip
        assert "ssh-key" not in say_in(*command), command
    assert secret.read_text(encoding="utf-8") == "ssh-key-of-this-machine"
    for path in [*files(tmp_path / "runs"), *files(tmp_path / "public")]:
        assert path.is_symlink() or b"ssh-key" not in path.read_bytes(), path


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_no_link_in_our_state_is_written_through(tmp_path: Path) -> None:
    make_bundle(tmp_path / "runs" / "r", judged=0)
    options = Options(runs=tmp_path / "runs", out=tmp_path / "out", state_home=tmp_path)
    build(options)
    (state,) = (tmp_path / ".touchstone").glob("build-*.json")
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", encoding="utf-8")
    make_bundle(tmp_path / "runs" / "s", judged=0)
    for path in (state, state.with_suffix(".claims"), state.with_name(f".{state.name}.{os.getpid()}.tmp")):
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
        with suppress(TouchstoneError):
            build(options)
        assert secret.read_text(encoding="utf-8") == "mine", path
        path.unlink(missing_ok=True)


# -- the terminal


@pytest.mark.skipif(os.name == "nt", reason="no folder can be called so")
def test_no_command_prints_what_a_terminal_obeys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    orders = "\x1b[31m\x9b2J\x07\u202e"
    bundle = poison(tmp_path / "runs" / f"r{orders}")
    whole = (bundle / "pack.yaml").read_text(encoding="utf-8")
    for log in bundle.glob("*.jsonl"):
        text = log.read_text(encoding="utf-8").replace("{{7*7}}", json.dumps(orders)[1:-1])
        log.write_text(text + text.replace('"repeat": 0', f'"repeat": {json.dumps(orders)}') + f"{orders} torn\n")
    place = ("--bundle", str(bundle))
    for command in (
        ("check", str(bundle)), ("scorecard",), ("judge", *place, "--dry-run", "--judge-config", "j.yaml"),
        ("judge-meta", "export"), ("build",),
    ):  # fmt: skip
        for pack in (whole, f'{whole}"odd{json.dumps(orders)[1:-1]}": 1\n')[: 1 + (command[0] == "check")]:
            (tmp_path / "j.yaml").write_text("model: j\nendpoint: http://127.0.0.1:9\n")
            (bundle / "pack.yaml").write_text(pack, encoding="utf-8")
            said = say_in(*command)
            assert said
            for line in said.split("\n"):
                assert line.isprintable(), (command, line)


# -- other origins: pages from elsewhere, in the same browser


def test_no_answer_can_be_used_by_a_page_from_elsewhere(cli: Cli) -> None:
    poison(cli.home / "runs" / "r")
    with running(cli, "serve", "--port", "0", "--no-open") as (_, url):
        host = url.removeprefix("http://").strip("/")
        for path in ("/", "/data/search-1.js", "/data/runs.json", "/runs/r/judge/index.html", "/nope", "/-/live.js"):
            for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null", "Sec-Fetch-Site": "cross-site"}):
                answer = asked(host, path, headers)
                assert answer["cross-origin-resource-policy"] == "same-origin", path
                assert answer["x-content-type-options"] == "nosniff" and "set-cookie" not in answer
                assert not [name for name in answer if name.startswith("access-control-")]
        for site in ("cross-site", "same-site"):
            assert asked(host, "/events", {"Sec-Fetch-Site": site})["status"] == "403"


def asked(host: str, path: str, headers: dict[str, str]) -> dict[str, str]:
    """Status and headers of an answer, names in lower case."""
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return {"status": str(answer.status), **{name.lower(): value for name, value in answer.getheaders()}}
    finally:
        connection.close()


# -- the network


def test_who_listens_for_the_network_is_told(cli: Cli) -> None:
    poison(cli.home / "runs" / "r")
    process = cli.start("serve", "--host", "0.0.0.0", "--port", "0", "--no-open")
    assert process.stdout is not None and process.stdout.readline().startswith("http://127.0.0.1:")
    process.kill()
    assert "everyone who can reach this machine can read the site" in process.communicate()[1]


def test_one_connection_too_many_is_closed_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<html><head></head></html>")
    server = listen("127.0.0.1", 0, folder(tmp_path), Hub("s"), b"", frozenset())
    server.places = threading.BoundedSemaphore(3)
    server.start()

    def opened() -> socket.socket:
        return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)

    def answered(connection: socket.socket) -> bool:
        with suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = b""
            while b"</html>" not in found and (piece := connection.recv(65536)):
                found += piece
            return found.startswith(b"HTTP/1.1 200")
        return False

    try:
        held = [opened() for _ in range(3)]
        assert all(map(answered, held))
        with opened() as extra:
            assert not answered(extra)
        assert all(map(answered, held))
        for each in held:
            each.close()
        until, again = time.monotonic() + 20, False
        while not again and time.monotonic() < until:
            with opened() as extra:
                again = answered(extra)
        assert again, "there is room again"
    finally:
        server.stop()


# -- the table

TABLE = ROOT / "docs" / "threats.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def names_of(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_threat_names_tests_that_there_are() -> None:
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    threats = [row for row in rows if not re.match(r"\| (threat|---|target|fault)", row)]
    assert len(threats) > 30
    for row in threats:
        named = NAMED.findall(row)
        assert named, f"no test: {row[:100]}"
        for file, test in named:
            assert test in names_of(ROOT / file), f"{file}::{test}"


# -- what comes from elsewhere


def test_what_users_get_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock, "no host of a registry belongs in there"
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+)( ;[^\\]*)? \\((?:\n    --hash=sha256:[0-9a-f]{64} ?\\?)+)$", lock, re.MULTILINE
    )
    assert len(entries) == len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE))
    locked = {name: version for name, version, *_ in entries}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    for text in wanted:
        need = Requirement(text)
        version = locked.get(canonicalize_name(need.name))
        assert version is not None and need.specifier.contains(version), f"{text}: run `make lock`"


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_runs_what_was_looked_at(path: Path) -> None:
    flow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert flow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in flow[True]  # YAML 1.1 reads `on` so
    for job in flow["jobs"].values():
        assert "permissions" not in job and job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step.get("uses", "actions/x@" + "0" * 40)), step
            assert "${{" not in step.get("run", ""), "text of strangers could become a command"
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
