"""`touchstone init`: what is found on the usual ports becomes settings that work; nothing is ever overwritten."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.standin import Action, Brain, Request, StandIn, error, plain, redirect, stall
from touchstone.contracts.config import parse_config
from touchstone.contracts.pack import parse_pack
from touchstone.presets import PLACES, Server, chat_models, choose, config_text, discover, findings, size
from touchstone.resources import starter

FILES = {"touchstone.yaml", "example-pack.yaml", ".gitignore"}


def free(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


usual_ports = pytest.mark.skipif(
    not all(free(int(place.url.split(":")[2].split("/")[0])) for place in PLACES),
    reason="a model server, or something else, uses one of the ports on this machine",
)


@contextlib.contextmanager
def at(port: int, *models: str) -> Iterator[StandIn]:
    with StandIn(Brain(models=models), port=port) as server:
        yield server


def made(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# -- the command


@usual_ports
def test_settings_that_work_at_once(cli: Cli) -> None:
    with at(11434, "qwen3:0.6b", "nomic-embed-text", "qwen3:8b") as server:
        done = cli("init")
        assert set(done.out.split()) == FILES == made(cli.home)
        assert "Ollama" in done.err and "2 model(s); chosen" in done.err and "next: touchstone run" in done.err
        config = parse_config((cli.home / "touchstone.yaml").read_bytes(), "touchstone.yaml")
        assert config.eval.models == ["qwen3:0.6b"] and config.judge.model == "qwen3:8b"
        assert config.eval.endpoint == config.judge.endpoint == server.url
        assert "6 verdicts, 0 unscored" in cli("run").out
    assert "nothing wrong" in cli("check", "example-pack.yaml").err + cli("check", "touchstone.yaml").err


@usual_ports
def test_without_a_server_it_says_what_to_start(cli: Cli) -> None:
    done = cli("init", "new/project")
    folder = cli.home / "new" / "project"
    assert made(folder) == FILES
    for place in PLACES:
        assert place.name in done.err and place.start in done.err
    assert "next: cd new/project && touchstone run" in done.err
    text = (folder / "touchstone.yaml").read_text(encoding="utf-8")
    assert parse_config(text, "touchstone.yaml").eval.endpoint is None
    assert "--endpoint" in cli("eval", "--config", str(folder / "touchstone.yaml"), code=2).err
    # Taking away the marks of the lines that it names is enough.
    for line in ("  # endpoint: http://127.0.0.1:11434/v1", "  # models:"):
        assert line in text
        text = text.replace(line, line.replace("# ", ""))
    config = parse_config(text, "touchstone.yaml")
    assert config.eval.endpoint == "http://127.0.0.1:11434/v1" and config.eval.models


@usual_ports
def test_several_servers_and_those_that_are_none(cli: Cli) -> None:
    def website(request: Request) -> Action:
        return plain("<h1>Hello</h1>", kind="text/html")

    locked = error(401, {"error": {"message": "Invalid API Key"}})
    with at(1234), at(11434, "small-1b", "big-70b"), StandIn(website, port=8080), StandIn(lambda _: locked, port=8000):
        done = cli("init")
    assert "LM Studio at http://127.0.0.1:1234/v1 has no model yet" in done.err
    assert "Ollama at http://127.0.0.1:11434/v1 has 2 model(s); chosen" in done.err
    assert "llama.cpp" not in done.err
    assert "vLLM at http://127.0.0.1:8000/v1 wants an API key" in done.err and "api_key_env" in done.err


def test_nothing_is_overwritten(cli: Cli) -> None:
    for name in ("touchstone.yaml", ".gitignore"):
        (cli.home / name).write_text("runs: mine\n")
    done = cli("init")
    assert done.out.split() == ["example-pack.yaml"]
    assert {(cli.home / name).read_text() for name in ("touchstone.yaml", ".gitignore")} == {"runs: mine\n"}
    for name in ("touchstone.yaml", ".gitignore"):
        assert f"{name} is there already" in done.err
    before = {path.name: path.read_bytes() for path in cli.home.iterdir()}
    assert cli("init").out == ""
    assert {path.name: path.read_bytes() for path in cli.home.iterdir()} == before


def test_a_place_that_cannot_be_written_is_named(cli: Cli) -> None:
    (cli.home / "touchstone.yaml").write_text("{}")
    (cli.home / ".github").write_text("a file where a folder should be")
    assert ".github" in cli("init", "--pages", code=1).err
    assert "is a file" in cli("init", "touchstone.yaml", code=2).err


def test_the_workflow_for_github_pages(cli: Cli) -> None:
    (cli.home / "touchstone.yaml").write_text("{}")
    done = cli("init", "--pages")
    path = ".github/workflows/touchstone-site.yml"
    assert path in done.out.replace("\\", "/") and "only at the top of a repository" in done.err
    text = (cli.home / path).read_text(encoding="utf-8")
    flow = yaml.safe_load(text)
    assert flow[True]["push"]["branches"] == ["touchstone-site"]  # YAML 1.1 reads `on` so
    assert flow["permissions"] == {"contents": "read", "pages": "write", "id-token": "write"}
    steps = flow["jobs"]["site"]["steps"]
    building = [step for step in steps if "inputs.build }}" in step.get("if", "") and "!inputs" not in step["if"]]
    assert [step.get("uses") for step in building] == ["actions/checkout@v4", "actions/setup-python@v5", None]
    assert "'--public'" in building[-1]["run"] and "::warning::" in text
    assert "/public/" in (cli.home / ".gitignore").read_text()


# -- who is asked


def test_only_this_machine_is_asked() -> None:
    assert {place.url.split("/")[2].split(":")[0] for place in PLACES} == {"127.0.0.1"}


def test_servers_that_answer_oddly_are_passed_over_in_time() -> None:
    scripts = [
        lambda _: stall(),
        lambda _: redirect("http://192.0.2.1/"),
        lambda _: plain("[" * 9999),
        lambda _: plain({}),
    ]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(StandIn(script)) for script in scripts]
        good = stack.enter_context(StandIn(Brain(models=("m", "m", "text-embedding-x"))))
        places = [replace(PLACES[0], url=server.url) for server in (*servers, good)]
        found = asyncio.run(discover(places))
    assert [server for server in found if server.models] == [Server(places[-1], ("m",))]


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen3-8b", 8), ("qwen3:0.6b", 0.6), ("smollm2-135m", 0.135), ("mixtral:8x7b", 56), ("gpt-oss:20b", 20),
        ("Llama-3.3-70B-Instruct-Q4_K_M", 70), ("phi-4", 0), ("v1.5b2", 0), ("a" * 500, 0), ("9" * 500 + "b", 0),
    ],
)  # fmt: skip
def test_the_size_that_a_name_tells(name: str, billions: float) -> None:
    assert size(name) == pytest.approx(billions)


def test_the_largest_judges() -> None:
    assert choose(["a-1b", "b-7b", "c-3b"]) == (["a-1b", "c-3b"], "b-7b")
    assert choose(["alone"]) == (["alone"], "alone")
    assert "judges itself" in config_text([Server(PLACES[0], ("alone",))], "p.yaml")


def test_models_that_answer_no_questions_are_left_out() -> None:
    names = ["qwen3-8b", "text-embedding-nomic-embed-text-v1.5", "bge-m3", "jina-reranker-v2", "whisper-1", "tts-1",
             "evil\nmodel", "", "x" * 501, "qwen3-8b", "clipper-7b"]  # fmt: skip
    assert chat_models(names) == ["qwen3-8b", "clipper-7b"]


@settings(max_examples=150)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=50))
def test_whatever_models_are_called_the_config_can_be_read(names: list[str]) -> None:
    servers = [Server(PLACES[1], tuple(chat_models(names))), Server(PLACES[2], ("other",))]
    config = parse_config(config_text(servers, "a pack: 1.yaml"), "touchstone.yaml")
    assert config.judge.model in (*servers[0].models, "other")
    assert set(config.eval.models) <= {*servers[0].models, "other"} and config.eval.models
    assert config.eval.pack == "a pack: 1.yaml"
    assert all(line.isprintable() for line in findings(servers))


def test_the_example_pack_is_a_good_one() -> None:
    pack = parse_pack(starter("example-pack.yaml"), "example-pack.yaml")
    assert pack.id == "example" and len(pack.variants) == 2 and any(prompt.red_flags for prompt in pack.prompts)
