"""The real chain against a real model server: no stand-in could be as odd as a small model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.conftest import Cli
from tests.test_chain import PACK, lines, the_bundle
from touchstone.bundle import open_bundle

pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif(sys.platform == "win32", reason="the server's package has no build for Windows"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """SmolLM2 135M under llama.cpp's server."""
    from tools.llm_server import running

    with running("smollm2", port=0, ctx=4096) as url:
        yield url


def test_eval_and_judge_with_a_real_model(cli: Cli, server: str) -> None:
    prompts = [
        {"id": "p1", "title": "Sky", "text": "What colour is the sky on a clear day?", "reference": "Blue."},
        {"id": "p2", "title": "Sum", "text": "What is two plus two?", "reference": "Four.", "red_flags": ["insults"]},
    ]
    (cli.home / "small.yaml").write_text(PACK + yaml.safe_dump(prompts), encoding="utf-8")
    config = {
        "eval": {
            "pack": "small.yaml",
            "models": ["smollm2"],
            "variants": ["plain"],
            "endpoint": server,
            "max_tokens": 40,
        },
        "judge": {"endpoint": server, "model": "smollm2", "max_tokens": 400},
    }
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    cli("run")
    bundle = the_bundle(cli.home)
    answers = lines(bundle / "answers.jsonl")
    assert [answer["status"] in ("ok", "truncated") for answer in answers] == [True, True]
    metrics = answers[0]["metrics"]
    assert 0 < metrics["ttft_s"] <= metrics["total_s"] and metrics["completion_tokens"] > 0 and metrics["gen_tps"] > 0
    verdicts = lines(bundle / "judgements.jsonl")
    assert len(verdicts) == 2 and {verdict["mode"] for verdict in verdicts} == {"json_schema"}
    for verdict in verdicts:
        assert verdict["unscored"] or 1 <= verdict["score"] <= 5
    view = open_bundle(bundle).refresh()
    assert view.judge.finished and not view.problems and len(view.reports) == 1
    assert json.loads((cli.home / "public" / "data" / "runs.json").read_text())[0]["verdicts"] == 2


def test_an_overlong_question_is_a_named_failure_of_that_answer(cli: Cli, server: str) -> None:
    prompts = [{"id": "long", "text": "word " * 9000}, {"id": "short", "text": "Say yes."}]
    (cli.home / "small.yaml").write_text(PACK + yaml.safe_dump(prompts), encoding="utf-8")
    cli("eval", "--pack", "small.yaml", "--model", "smollm2", "--variant", "plain", "--endpoint", server)
    long, short = lines(the_bundle(cli.home) / "answers.jsonl")
    assert long["status"] == "error" and "context" in long["error"] and short["status"] != "error"
