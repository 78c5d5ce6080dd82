"""`touchstone eval` as a process: killed at any moment, interrupted once and twice, watched by its sampling process."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.conftest import Cli
from tests.standin import Action, Brain, Request, StandIn, after, openai_error, stall
from tests.test_chain import PROMPTS, lines, the_bundle, write_project
from touchstone.bundle import open_bundle

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals for another process")
ANSWERS = 2 * 2 * PROMPTS


def keys(bundle: Path) -> list[tuple[str, str, str, int]]:
    return [(a["model"], a["variant"], a["prompt_id"], a["repeat"]) for a in lines(bundle / "answers.jsonl")]


def sampling(parent: int) -> list[psutil.Process]:
    """The sampling processes below a run."""
    with contextlib.suppress(psutil.Error):
        return [child for child in psutil.Process(parent).children() if "touchstone.sampling" in child.cmdline()]
    return []


def wait_for(what: Any, limit_s: float = 60) -> Any:
    """The first true value of `what()`; fails the test if it does not come."""
    end = time.monotonic() + limit_s
    while not (value := what()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
    return value


def answered(home: Path, count: int) -> bool:
    return sum(log.read_bytes().count(b"\n") for log in home.glob("runs/*/answers.jsonl")) >= count


def is_gone(process: psutil.Process) -> bool:
    """Neither running nor left as a zombie."""
    return not process.is_running()


# -- killed


def kill_after(cli: Cli, count: int, args: list[str]) -> None:
    """A run that is killed -9 once so many answers stand."""
    process = cli.start(*args)
    wait_for(lambda: process.poll() is not None or answered(cli.home, count))
    process.kill()
    process.communicate()


@pytest.mark.parametrize("kills", [[0], [1, 2, 3], [7, 13], [23, 24]], ids=str)
def test_kill_9_and_resume_give_every_answer_once(cli: Cli, endpoint: StandIn, kills: list[int]) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = Brain(delay_s=0.01)
    args: list[str] = ["eval", "--events"]
    for count in kills:
        kill_after(cli, count, args)
        runs = list(cli.home.glob("runs/2*"))
        args = ["eval", "--events", "--resume", str(runs[0])] if runs else args
    before = len(lines(the_bundle(cli.home) / "answers.jsonl")) if len(args) > 2 else 0
    asked = len(endpoint.chats)
    done = cli(*args)
    bundle = the_bundle(cli.home)
    assert len(endpoint.chats) - asked <= ANSWERS - before + 2  # two warm-ups
    assert keys(bundle) == [
        (m, v, f"p{n:02}", 0) for m in ("m1", "m2") for v in ("plain", "kind") for n in range(PROMPTS)
    ]
    assert f"{ANSWERS} of {ANSWERS} answers" in done.out
    view = open_bundle(bundle).refresh()
    assert view.eval.finished and not view.eval.aborted and not view.problems
    assert {answer["status"] for answer in lines(bundle / "answers.jsonl")} == {"ok"}


def test_a_half_answer_of_a_killed_run_is_asked_again(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    cli("eval", "--model", "m1", "--variant", "plain")
    bundle = the_bundle(cli.home)
    log = bundle / "answers.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])
    cli("eval", "--resume", str(bundle))
    assert [k[2] for k in keys(bundle)] == [f"p{n:02}" for n in range(PROMPTS)]


# -- interrupted


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_one_interrupt_waits_for_the_answer_under_way(cli: Cli, endpoint: StandIn, number: signal.Signals) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = slow_from(3, 1.5)
    process = cli.start("eval", "--events")
    wait_for(lambda: len(endpoint.chats) >= 5)  # a warm-up and four questions, the last of which takes its time
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    bundle = the_bundle(cli.home)
    assert process.returncode == 130 and "Traceback" not in err
    assert "Ctrl-C once more" in err and f"touchstone eval --resume runs/{bundle.name}" in err
    assert [k[2] for k in keys(bundle)] == ["p00", "p01", "p02", "p03"]
    assert lines(bundle / "events.jsonl")[-1]["event"] == "eval_done"
    view = open_bundle(bundle).refresh()
    assert view.eval.aborted and view.manifest is not None and view.manifest.peak_ram_bytes


@posix
def test_two_interrupts_stop_at_once(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    brain = Brain()
    endpoint.script = lambda request: stall() if request.is_chat and request.chat_n >= 3 else brain(request)
    process = cli.start("eval", "--events")
    wait_for(lambda: len(endpoint.chats) >= 4)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "Ctrl-C once more" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    bundle = the_bundle(cli.home)
    assert [k[2] for k in keys(bundle)] == ["p00", "p01"]
    assert lines(bundle / "events.jsonl")[-1] | {"ts": 0} == {
        "event": "eval_done",
        "ts": 0,
        "total": ANSWERS,
        "answered": 2,
    }
    endpoint.script = brain
    cli("eval", "--resume", str(bundle))
    assert len(set(keys(bundle))) == len(keys(bundle)) == ANSWERS


@posix
def test_an_interrupt_ends_a_pause_between_two_tries(cli: Cli, endpoint: StandIn) -> None:
    from tests.standin import error

    write_project(cli.home, endpoint)
    brain = Brain()
    endpoint.script = lambda request: (
        error(429, "slow down", {"retry-after": "100"}) if request.is_chat and request.chat_n >= 2 else brain(request)
    )
    process = cli.start("eval")
    wait_for(lambda: len(endpoint.chats) >= 3)
    time.sleep(0.2)  # until it has begun to wait
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert [k[2] for k in keys(the_bundle(cli.home))] == ["p00"]


@posix
def test_an_interrupt_before_the_first_answer_leaves_no_empty_run(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = lambda request: after(1.5, Brain()(request)) if request.is_chat else Brain()(request)
    process = cli.start("eval")
    wait_for(lambda: endpoint.chats)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and not list((cli.home / "runs").iterdir())


def slow_from(chat_n: int, seconds: float) -> Any:
    """Answers at once, and slowly from the question after `chat_n` on (the warm-up is chat 0)."""
    brain = Brain()

    def script(request: Request) -> Action:
        action = brain(request)
        return after(seconds, action) if request.is_chat and request.chat_n > chat_n else action

    return script


# -- how a model is asked


def test_the_load_time_is_what_the_first_question_took_longer(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    brain = Brain()
    endpoint.script = lambda request: (
        after(3.0, brain(request)) if request.is_chat and request.chat_n == 0 else brain(request)
    )
    cli("eval", "--variant", "plain")
    first, *others = lines(the_bundle(cli.home) / "answers.jsonl")
    assert first["metrics"]["load_s"] >= 2.0
    assert {line["metrics"]["load_s"] for line in others} == {None}  # m2 was there already
    asked = Counter(chat.model for chat in endpoint.chats if chat.json["max_tokens"] == 1)
    assert asked == {"m1": 2, "m2": 1}


def test_a_model_that_is_not_there_costs_its_own_answers_alone(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    brain = Brain(models=("m2", "m3"))
    endpoint.script = lambda request: (
        openai_error(404, "model 'm1' not found", code="model_not_found")
        if request.is_chat and request.model == "m1"
        else brain(request)
    )
    done = cli("eval", "--variant", "plain", code=1)
    (line,) = (text for text in done.err.splitlines() if "has no model" in text)
    assert "'m1'" in line and "it has: m2, m3" in line
    assert f"{PROMPTS} questions could not be asked" in done.err and "touchstone eval --resume" in done.err
    assert {answer["model"] for answer in lines(the_bundle(cli.home) / "answers.jsonl")} == {"m2"}


# -- the machine's load


def test_the_load_is_recorded_with_events_only_and_the_peak_always(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    for args in (["--events"], []):
        cli("eval", "--variant", "plain", *args)
    with_events, without = sorted((cli.home / "runs").iterdir())
    samples = lines(with_events / "resources.jsonl")
    assert samples[0].keys() == {
        "ts", "ram_used_bytes", "ram_available_bytes", "swap_out_bytes_per_s", "cpu_percent", "pressure", "throttled",
        "gpus",
    }  # fmt: skip
    manifest = yaml.safe_load((with_events / "bundle.yaml").read_text())
    assert manifest["peak_ram_bytes"] == max(sample["ram_used_bytes"] for sample in samples)
    assert not (without / "resources.jsonl").exists()
    assert yaml.safe_load((without / "bundle.yaml").read_text())["peak_ram_bytes"] > 0
    load = open_bundle(with_events).refresh().load
    assert load.samples == len(samples) and load.total == psutil.virtual_memory().total


def test_models_elsewhere_say_nothing_about_this_machine(cli: Cli, endpoint: StandIn) -> None:
    from touchstone.sampling.host import is_here

    for name in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST.", "a.localhost", "0.0.0.0"):
        assert is_here(name), name
    for name in ("api.example.com", "192.0.2.7", "2001:db8::1", "localhost.example.com"):
        assert not is_here(name), name


def test_the_run_survives_its_sampling_process(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = Brain(delay_s=0.05)
    process = cli.start("eval", "--events")
    (child,) = wait_for(lambda: sampling(process.pid))
    wait_for(lambda: answered(cli.home, 2))
    child.kill()
    wait_for(lambda: is_gone(child))  # also off the process table, while the run goes on
    assert process.poll() is None
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and f"{ANSWERS} of {ANSWERS} answers" in out
    assert "no longer recorded" in err


@pytest.mark.parametrize("how", ["kill", "end"])
def test_the_sampling_process_ends_with_its_run(cli: Cli, endpoint: StandIn, how: str) -> None:
    write_project(cli.home, endpoint)
    endpoint.script = Brain(delay_s=0.02)
    process = cli.start("eval", "--events")
    (child,) = wait_for(lambda: sampling(process.pid))
    if how == "kill":
        wait_for(lambda: answered(cli.home, 2))
        process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: is_gone(child) or child.status() == psutil.STATUS_ZOMBIE)  # an orphan's reaping is init's task
    assert how == "kill" or is_gone(child)


@posix
def test_a_log_that_cannot_be_written_costs_the_log_alone(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    cli("eval", "--model", "m1", "--variant", "plain")
    bundle = the_bundle(cli.home)
    (bundle / "resources.jsonl").symlink_to("/dev/null")
    (bundle / "answers.jsonl").unlink()
    done = cli("eval", "--events", "--resume", str(bundle))
    assert "load is not recorded" in done.err and "symbolic link" in done.err
    assert len(keys(bundle)) == PROMPTS


def test_the_peak_of_a_killed_run_is_noted_by_the_next_one(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    cli("eval", "--model", "m1", "--variant", "plain")
    bundle = the_bundle(cli.home)
    peak = 10**15
    (bundle / "resources.jsonl").write_text(json.dumps({"ts": 1.0, "ram_used_bytes": peak}) + "\n{broken\n")
    manifest = (bundle / "bundle.yaml").read_text() + "mine: kept # and this\n"
    (bundle / "bundle.yaml").write_text(manifest)
    answers = (bundle / "answers.jsonl").read_text().splitlines(keepends=True)
    (bundle / "answers.jsonl").write_text("".join(answers[:-1]))
    cli("eval", "--resume", str(bundle))
    noted = (bundle / "bundle.yaml").read_text()
    assert f"peak_ram_bytes: {peak}\n" in noted and noted.endswith("mine: kept # and this\n")
    assert len(noted.splitlines()) == len(manifest.splitlines())


def test_a_module_in_the_working_folder_does_not_stand_in_for_ours(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    (cli.home / "signal.py").write_text("raise SystemExit('the wrong signal')")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "touchstone", "eval", "--events", "--model", "m1", "--variant", "plain"],
        cwd=cli.home, env=cli.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "recorded" not in done.stderr
    assert lines(the_bundle(cli.home) / "resources.jsonl")


@posix
def test_a_full_disk_is_one_plain_message_and_nothing_is_lost(cli: Cli, endpoint: StandIn) -> None:
    write_project(cli.home, endpoint)
    code = (
        "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500));"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "import sys; sys.argv = ['touchstone', 'eval', '--events'];"
        "from touchstone.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cli.home, env=cli.environment(), capture_output=True, text=True
    )
    bundle = the_bundle(cli.home)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"touchstone eval --resume runs/{bundle.name}" in done.stderr
    stands = len(keys(bundle))
    assert 0 < stands < ANSWERS
    cli("eval", "--events", "--resume", str(bundle))
    assert len(keys(bundle)) == len(set(keys(bundle))) == ANSWERS
    assert not open_bundle(bundle).refresh().problems
