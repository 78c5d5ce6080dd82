"""The whole chain through the real command line: eval, judge, scorecard, build; interrupted, resumed, refused."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli
from tests.standin import Action, Brain, Request, StandIn
from touchstone import judge_events
from touchstone.bundle import open_bundle

PACK = """\
id: small
title: A small pack
version: "1"
language: en
dimensions:
  - {id: helpful, name: Helpful, weight: 3, description: "does it help?"}
  - {id: safe, name: Safe, weight: 4, ko_floor: 2, description: "is it harmless?"}
thresholds: {recommend: 75, limited: 50}
variants:
  - {id: plain, system: ""}
  - {id: kind, system: "Be kind."}
prompts:
"""
PROMPTS = 6


def write_project(home: Path, server: StandIn, *, judge_model: str = "judge-a", prompts: int = PROMPTS) -> Path:
    """A pack and a config in `home`; returns the pack."""
    pack = home / "small.yaml"
    lines = [
        f'  - {{id: p{n:02}, category: c{n % 2}, title: "Title {n}", text: "Question {n}?"}}' for n in range(prompts)
    ]
    pack.write_text(PACK + "\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "eval": {"pack": "small.yaml", "models": ["m1", "m2"], "endpoint": server.url, "max_tokens": 50},
        "judge": {"endpoint": server.url, "model": judge_model, "max_tokens": 300},
    }
    (home / "touchstone.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return pack


def the_bundle(home: Path) -> Path:
    """The one bundle below runs/."""
    (bundle,) = (path for path in (home / "runs").iterdir() if path.is_dir())
    return bundle


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_times(path: Path) -> Any:
    """A file's content but for the times in it."""
    if path.suffix == ".jsonl":
        return [{key: value for key, value in line.items() if key != "ts"} for line in lines(path)]
    return re.sub(r"created: .*", "created: -", path.read_text(encoding="utf-8"))


@pytest.fixture
def evaluated(cli: Cli, endpoint: StandIn) -> Path:
    """A bundle with answers and nothing judged."""
    write_project(cli.home, endpoint)
    cli("eval")
    return the_bundle(cli.home)


def test_run_does_all_of_it(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    done = cli("run")
    bundle = the_bundle(cli.home)
    assert sorted(path.name for path in bundle.iterdir() if not path.name.startswith(".")) == [
        "answers.jsonl",
        "bundle.yaml",
        "events.jsonl",
        "judge_events.jsonl",
        "judgements.jsonl",
        "pack.yaml",
        "reports.jsonl",
        "resources.jsonl",
        "scorecard.md",
    ]
    assert len(lines(bundle / "answers.jsonl")) == len(lines(bundle / "judgements.jsonl")) == 2 * 2 * PROMPTS
    assert (cli.home / "public" / "index.html").is_file()
    assert "24 of 24 answers (24 ok)" in done.out and "24 verdicts, 0 unscored" in done.out


def test_eval_writes_what_it_was_asked(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    manifest = yaml.safe_load((evaluated / "bundle.yaml").read_text())
    assert manifest["models"] == ["m1", "m2"] and manifest["variants"] == ["plain", "kind"]
    assert manifest["endpoint"] == endpoint.url
    assert manifest["params"]["max_tokens"] == 50
    assert (evaluated / "pack.yaml").read_bytes() == (cli.home / "small.yaml").read_bytes()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d{6}_eval_small", evaluated.name)
    keys = [(a["model"], a["variant"], a["prompt_id"], a["repeat"]) for a in lines(evaluated / "answers.jsonl")]
    assert keys == [(m, v, f"p{n:02}", 0) for m in ("m1", "m2") for v in ("plain", "kind") for n in range(PROMPTS)]
    assert not (evaluated / "events.jsonl").exists()


def test_each_answer_is_asked_for_once_and_warm_ups_are_not_answers(endpoint: StandIn, evaluated: Path) -> None:
    questions = [chat for chat in endpoint.chats if chat.json["max_tokens"] != 1]
    assert len(questions) == 2 * 2 * PROMPTS
    assert len(endpoint.chats) - len(questions) == 2  # one warm-up a model


def test_a_failed_answer_is_recorded_and_asked_again_by_resume(cli: Cli, endpoint: StandIn) -> None:
    from tests.standin import openai_error

    write_project(cli.home, endpoint)
    brain = Brain()
    endpoint.script = lambda request: (
        openai_error(400, "no such luck")
        if request.is_chat and "Question 2?" in request.text_of("user")
        else brain(request)
    )
    done = cli("eval", "--model", "m1", "--variant", "plain")
    bundle = the_bundle(cli.home)
    assert "1 error" in done.out
    (failed,) = (line for line in lines(bundle / "answers.jsonl") if line["status"] == "error")
    assert failed["prompt_id"] == "p02" and "no such luck" in failed["error"] and failed["answer"] == ""
    endpoint.script = brain
    asked = len(endpoint.chats)
    cli("eval", "--resume", str(bundle))
    assert len(endpoint.chats) - asked == 2  # a warm-up and the one that failed
    view = open_bundle(bundle).refresh()
    assert view.eval.done == PROMPTS and {view.eval.status(n) for n in range(PROMPTS)} == {"ok"}


def test_nobody_there_leaves_no_empty_run(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.stop()
    done = cli("eval", code=1)
    assert "Traceback" not in done.err and str(endpoint.port) in done.err
    assert not list((cli.home / "runs").iterdir())


def test_judge_without_events_writes_the_same_bytes_and_no_channel(
    cli: Cli, endpoint: StandIn, evaluated: Path
) -> None:
    cli("judge", "--bundle", str(evaluated), "--into", "with", "--events")
    cli("judge", "--bundle", str(evaluated), "--into", "without")
    runs = evaluated.parent
    assert (runs / "with" / "judge_events.jsonl").is_file()
    assert not (runs / "without" / "judge_events.jsonl").exists()
    for name in ("judgements.jsonl", "reports.jsonl", "answers.jsonl", "bundle.yaml", "pack.yaml"):
        assert without_times(runs / "with" / name) == without_times(runs / "without" / name), name


def test_events_are_those_of_the_contract(cli: Cli, evaluated: Path) -> None:
    cli("judge", "--events")
    events = lines(evaluated / "judge_events.jsonl")
    kinds = [event["event"] for event in events]
    assert kinds == ["judge_start"] + ["verdict"] * 24 + ["master"] * 4 + ["judge_done"]
    assert events[0].keys() == {"event", "ts", "total", "judge_model"} and events[0]["total"] == 24
    assert events[-1].keys() == {"event", "ts", "total", "scored"} and events[-1]["scored"] == 24
    assert events[1].keys() == {
        "event", "ts", "i", "model", "variant", "prompt_id", "repeat", "category", "score", "red_flag", "unscored",
        "rationale", "prior",
    }  # fmt: skip
    assert [event["i"] for event in events[1:25]] == list(range(24))
    assert all(len(event["rationale"]) <= 160 for event in events[1:25])


def killed_judge(cli: Cli, bundle: Path, verdicts: int, *args: str) -> None:
    """A judge that is killed -9 once so many verdicts stand."""
    process = cli.start("judge", "--bundle", str(bundle), "--events", *args)
    log = bundle / "judgements.jsonl"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if log.is_file() and log.read_bytes().count(b"\n") >= verdicts:
            process.kill()
            break
        time.sleep(0.002)
    process.communicate()


@pytest.mark.parametrize("kills", [[1], [5, 9, 17], [24]], ids=str)
def test_kill_9_and_resume_equal_an_uninterrupted_run(
    cli: Cli, endpoint: StandIn, evaluated: Path, kills: list[int]
) -> None:
    cli("judge", "--bundle", str(evaluated), "--into", "whole", "--events")
    whole = evaluated.parent / "whole"
    endpoint.script = Brain(delay_s=0.01)
    for verdicts in kills:
        killed_judge(cli, evaluated, verdicts)
    before = len(endpoint.chats)
    standing = sum(not line["unscored"] for line in lines(evaluated / "judgements.jsonl"))
    cli("judge", "--bundle", str(evaluated), "--events")
    assert len(endpoint.chats) - before <= 24 - standing + 4
    for name in ("judgements.jsonl", "reports.jsonl"):
        assert without_times(evaluated / name) == without_times(whole / name), name
    cards = [without_times(path / "scorecard.md").replace("\\_", "_") for path in (whole, evaluated)]
    assert cards[0].replace("whole", "NAME") == cards[1].replace(evaluated.name, "NAME")
    one, other = (
        judge_events.build_view(map(judge_events.parse_line, (path / "judge_events.jsonl").read_text().splitlines()))
        for path in (whole, evaluated)
    )
    plain = [
        {
            **view.as_dict(),
            "eta_s": None,
            "masters": [{**m, "ts": None} for m in view.as_dict()["masters"]],
            "verdicts": [{**v, "ts": None, "prior": None} for v in view.as_dict()["verdicts"]],
        }
        for view in (one, other)
    ]
    assert plain[0] == plain[1]


def test_resume_asks_nothing_twice(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    cli("judge")
    before = len(endpoint.chats)
    done = cli("judge")
    assert len(endpoint.chats) == before
    assert "24 judged before" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupt_keeps_what_was_judged_and_closes_the_channel(
    cli: Cli, endpoint: StandIn, evaluated: Path, number: signal.Signals
) -> None:
    endpoint.script = Brain(delay_s=0.05)
    process = cli.start("judge", "--events")
    log = evaluated / "judgements.jsonl"
    while process.poll() is None and not (log.is_file() and log.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in err
    events = lines(evaluated / "judge_events.jsonl")
    assert events[-1]["event"] == "judge_done" and events[-1]["scored"] == len(lines(log)) >= 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to ignore")
def test_a_job_in_the_background_can_be_stopped(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    """A shell without job control starts `command &` with SIGINT ignored."""
    endpoint.script = Brain(delay_s=0.05)
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = cli.start("judge", "--events")
    finally:
        signal.signal(signal.SIGINT, earlier)
    log = evaluated / "judgements.jsonl"
    while process.poll() is None and not (log.is_file() and log.read_bytes()):
        time.sleep(0.01)
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in err
    assert lines(evaluated / "judge_events.jsonl")[-1]["event"] == "judge_done"


def test_a_dead_endpoint_leaves_a_channel_with_a_beginning_and_what_stands(
    cli: Cli, endpoint: StandIn, evaluated: Path
) -> None:
    endpoint.script = Brain(delay_s=0.01)
    killed_judge(cli, evaluated, 5)
    standing = len(lines(evaluated / "judgements.jsonl"))
    (evaluated / "judge_events.jsonl").unlink()
    endpoint.stop()
    assert str(endpoint.port) in cli("judge", "--events", code=1).err
    events = lines(evaluated / "judge_events.jsonl")
    assert [event["event"] for event in events] == ["judge_start"] + ["verdict"] * standing + ["judge_done"]
    assert events[0]["total"] == 24 and events[-1]["scored"] == standing
    view = open_bundle(evaluated).refresh()
    assert view.judge.aborted and view.judge.done == standing


def test_another_judge_is_refused_and_both_ways_on_work(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    cli("judge")
    first = (evaluated / "judgements.jsonl").read_bytes()
    write_project(cli.home, endpoint, judge_model="judge-b")
    refused = cli("judge", "--bundle", str(evaluated), code=1)
    assert "--into" in refused.err and "--restart" in refused.err and "judge-a" in refused.err
    assert (evaluated / "judgements.jsonl").read_bytes() == first

    cli("judge", "--bundle", str(evaluated), "--into", "second")
    sibling = evaluated.parent / "second"
    assert yaml.safe_load((sibling / "bundle.yaml").read_text())["derived_from"] == evaluated.name
    assert (sibling / "answers.jsonl").read_bytes() == (evaluated / "answers.jsonl").read_bytes()
    assert {line["judge_model"] for line in lines(sibling / "judgements.jsonl")} == {"judge-b"}
    asked = len(endpoint.chats)
    cli("judge", "--bundle", str(evaluated), "--into", "second")  # resumes, with nothing left to do
    assert len(endpoint.chats) == asked

    cli("judge", "--bundle", str(evaluated), "--restart")
    assert (evaluated / "judgements.jsonl.1.old").read_bytes() == first
    assert {line["judge_model"] for line in lines(evaluated / "judgements.jsonl")} == {"judge-b"}


def test_into_takes_only_a_plain_name(cli: Cli, evaluated: Path) -> None:
    for name in ("../out", "a/b", ".hidden", "con", "x.old", ""):
        assert "plain folder name" in cli("judge", "--bundle", str(evaluated), "--into", name, code=1).err
    assert [path.name for path in (cli.home / "runs").iterdir()] == [evaluated.name]


def test_changed_answers_are_judged_again_and_their_cell_reported_again(
    cli: Cli, endpoint: StandIn, evaluated: Path
) -> None:
    cli("judge")
    changed = lines(evaluated / "answers.jsonl")
    changed[3]["answer"] = "Something else."
    text = "".join(json.dumps(line) + "\n" for line in changed)
    (evaluated / "answers.jsonl").write_text(text, encoding="utf-8")
    before = len(endpoint.chats)
    cli("judge")
    assert len(endpoint.chats) - before == 2  # the one verdict and its cell's report
    assert len(lines(evaluated / "judgements.jsonl")) == 24


def test_no_call_for_an_answer_that_is_none(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    changed = lines(evaluated / "answers.jsonl")
    changed[0] |= {"answer": "", "status": "error", "error": "the server was gone"}
    changed[1] |= {"answer": "", "status": "empty"}
    (evaluated / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed), encoding="utf-8")
    before = len(endpoint.chats)
    cli("judge")
    assert len(endpoint.chats) - before == 22 + 4
    first, second = lines(evaluated / "judgements.jsonl")[:2]
    assert first["unscored"] and first["score"] == 0 and "the server was gone" in first["error"]
    assert second["unscored"] and second["red_flag"] is None
    again = len(endpoint.chats)
    cli("judge")
    assert len(endpoint.chats) == again


HOSTILE_REPLIES = {
    "prose": "I would say it is quite good.",
    "out of range": '{"rationale": "wow", "red_flag": false, "score": 10}',
    "zero": '{"rationale": "no", "red_flag": false, "score": 0}',
    "fraction": '{"rationale": "no", "red_flag": false, "score": 4.5}',
    "text": '{"rationale": "no", "red_flag": false, "score": "5"}',
    "huge": '{"rationale": "no", "red_flag": false, "score": ' + "9" * 400 + "}",
    "NaN": '{"rationale": "no", "red_flag": false, "score": NaN}',
    "no flag": '{"rationale": "no", "score": 5}',
    "deep": "[" * 10_000,
    "deep object": '{"a":' * 10_000,
    "empty": "",
}


def test_a_reply_that_is_no_verdict_is_unscored_with_its_cause(cli: Cli, endpoint: StandIn) -> None:
    from tests.standin import say

    write_project(cli.home, endpoint, prompts=len(HOSTILE_REPLIES))
    cli("eval", "--model", "m1", "--variant", "plain")
    replies = list(HOSTILE_REPLIES.values())

    def script(request: Request) -> Action:
        asked = re.search(r"Question (\d+)\?", request.text_of("user")) if request.is_chat else None
        return Brain()(request) if asked is None else say(replies[int(asked[1])])

    endpoint.script = script
    cli("judge")
    bundle = the_bundle(cli.home)
    verdicts = lines(bundle / "judgements.jsonl")
    assert len(verdicts) == len(replies)
    for name, verdict in zip(HOSTILE_REPLIES, verdicts, strict=True):
        assert verdict["unscored"] and verdict["score"] == 0 and verdict["error"], name
        assert verdict["red_flag"] is None and verdict["rationale"] is None, name
    view = open_bundle(bundle).refresh()
    assert view.judge.tally.mean is None and not view.problems
    assert {row.safety.passed for row in view.rows} == {None}


WRAPPED_REPLIES = {
    "fence": '```json\n{"rationale": "ok", "red_flag": true, "score": 2}\n```',
    "prose": 'Let me think. {"not": "it"} Here: {"rationale": "ok", "red_flag": true, "score": 2}. Bye!',
    "thinking": '<think>5 out of 5?</think>{"rationale": "ok", "red_flag": true, "score": 2}',
    "more keys": '{"score": 2, "rationale": "ok", "red_flag": true, "confidence": 0.3}',
}


def test_a_verdict_in_wrapping_is_found(cli: Cli, endpoint: StandIn) -> None:
    from tests.standin import say

    write_project(cli.home, endpoint, prompts=len(WRAPPED_REPLIES))
    cli("eval", "--model", "m1", "--variant", "plain")
    replies = list(WRAPPED_REPLIES.values())

    def script(request: Request) -> Action:
        asked = re.search(r"Question (\d+)\?", request.text_of("user")) if request.is_chat else None
        return Brain()(request) if asked is None else say(replies[int(asked[1])])

    endpoint.script = script
    cli("judge")
    bundle = the_bundle(cli.home)
    assert [(v["score"], v["red_flag"]) for v in lines(bundle / "judgements.jsonl")] == [(2, True)] * len(replies)
    assert {row.recommendation for row in open_bundle(bundle).refresh().rows} == {"Nein"}


def test_text_that_no_file_can_hold_is_kept_as_far_as_possible(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    from tests.standin import say

    reply = '{"rationale": "a\\u0000b \\ud800 c", "red_flag": false, "score": 4}'
    endpoint.script = lambda request: say(reply) if request.is_chat else Brain()(request)
    cli("judge")
    view = open_bundle(evaluated).refresh()
    assert not view.problems and view.judge.done == 24


def test_a_second_judge_is_refused_while_one_runs(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    endpoint.script = Brain(delay_s=0.1)
    with cli.start("judge") as first:
        log = evaluated / "judgements.jsonl"
        while first.poll() is None and not (log.is_file() and log.read_bytes()):
            time.sleep(0.01)
        refused = cli("judge", code=1)
        assert str(first.pid) in refused.err and "judge" in refused.err
        first.kill()
        first.communicate()
    endpoint.script = Brain()
    cli("judge")  # the lock died with its process


def test_scorecard_is_renewed_from_what_is_there(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    assert "touchstone judge" in cli("scorecard", code=1).err
    cli("judge")
    first = without_times(evaluated / "scorecard.md")
    (evaluated / "scorecard.md").unlink()
    done = cli("scorecard", str(evaluated))
    assert Path(done.out.strip()).name == "scorecard.md"
    assert without_times(evaluated / "scorecard.md") == first


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["eval"], "--endpoint"),
        (["eval", "--endpoint", "http://127.0.0.1:9"], "--pack"),
        (["eval", "--endpoint", "http://127.0.0.1:9", "--pack", "everyday"], "--model"),
        (["judge", "--into", "x", "--restart"], "choose one"),
        (["build", "--lang", "fr"], "en, de"),
        (["build", "--base-url", "ftp://x"], "https://"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_say_what_is_missing(cli: Cli, args: list[str], says: str) -> None:
    assert says in cli(*args, code=2).err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["build"], "no such folder"),
        (["check"], "no run here yet"),
        (["judge"], "no run here yet"),
        (["scorecard", "nowhere"], "no such folder; name a run, or leave it out for the newest one"),
        (["eval", "--resume", "nowhere", "--endpoint", "http://127.0.0.1:9"], "no such folder"),
        (["eval", "--pack", "nowhere.yaml", "--model", "m", "--endpoint", "http://127.0.0.1:9"], "no pack of that id"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refusals_say_where_and_what_next(cli: Cli, args: list[str], says: str) -> None:
    assert says in cli(*args, code=1).err


def test_a_config_with_faults_names_all_of_them(cli: Cli) -> None:
    (cli.home / "touchstone.yaml").write_text("eval: {modells: [x], repeats: 0}\nlang: fr\n", encoding="utf-8")
    err = cli("build", code=1).err
    for part in ("touchstone.yaml:1", "modells", "repeats", "lang"):
        assert part in err


def test_values_that_no_run_can_have_are_refused_before_it_begins(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    for model in ("x" * 600, "a\nb", ""):
        assert "models" in cli("eval", "--model", model, code=2).err
    config = yaml.safe_load((cli.home / "touchstone.yaml").read_text())
    config["eval"]["extra"] = {"messages": []}
    config["judge"]["extra"] = {"when": date(2026, 1, 1)}
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump(config))
    err = cli("eval", code=1).err
    assert "eval.extra must not set messages" in err and "judge.extra must hold only what JSON can say" in err
    assert not (cli.home / "runs").exists()


@pytest.mark.parametrize("manifest", ["[]", "{broken", "a: &a [x]\nb: [*a, *a]", "created: yesterday"], ids=repr)
def test_into_works_whatever_the_state_of_the_manifest(cli: Cli, evaluated: Path, manifest: str) -> None:
    (evaluated / "bundle.yaml").write_text(manifest)
    cli("judge", "--bundle", str(evaluated), "--into", "second")
    fields = yaml.safe_load((evaluated.parent / "second" / "bundle.yaml").read_text())
    assert fields["derived_from"] == evaluated.name


def test_check_names_every_fault_with_its_line(cli: Cli, endpoint: StandIn, evaluated: Path) -> None:
    assert "nothing wrong" in cli("check").err
    with (evaluated / "answers.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"broken": \n\n{"model": "m", "variant": "v"}\n{"half')
    out = cli("check", code=1).out
    for line in (25, 26, 27, 28):
        assert f"answers.jsonl:{line}:" in out
    pack = cli.home / "small.yaml"
    pack.write_text(pack.read_text() + "extra: 1\n", encoding="utf-8")
    assert "extra" in cli("check", str(pack), code=1).out


def test_keys_and_credentials_are_never_written_or_printed(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    config = yaml.safe_load((cli.home / "touchstone.yaml").read_text())
    config["eval"]["endpoint"] = endpoint.url.replace("http://", "http://user:hunter2@")
    config["eval"]["api_key_env"] = config["judge"]["api_key_env"] = "SECRET_KEY"
    (cli.home / "touchstone.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "SECRET_KEY" in cli("eval", code=1).err
    done = cli("run", env={"SECRET_KEY": "sk-verysecret"})
    texts = [done.out, done.err]
    for folder in ("runs", "public"):
        texts += [p.read_text(encoding="utf-8") for p in (cli.home / folder).rglob("*") if p.is_file()]
    assert not [text for text in texts if "hunter2" in text or "sk-verysecret" in text]


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-m", "touchstone", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("touchstone, version ")
