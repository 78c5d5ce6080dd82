"""Five hundred verdicts from a server that does everything wrong, by a judge that is killed -9 five times on the way.

In the end every key has exactly one verdict, every score is the one that the server gave, every other verdict names
its cause, and none of it depends on what went wrong when.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli
from tests.making import PACK, make_bundle
from tests.standin import (
    Action,
    Brain,
    Request,
    StandIn,
    after,
    break_off,
    close_before_header,
    delta,
    error,
    event,
    openai_error,
    plain,
    reset_before_header,
    say,
    say_plain,
    stall,
    stream,
    then_close,
    trickle_comments,
    usage_of,
)
from touchstone import judge_events
from touchstone.judge_events import JudgeDone

TOTAL = 500
KILLS = 5
AWAY_S = 5.0
TIMEOUT_S = 9
"""Of a call; the server is away for less."""


def verdict_on(n: int) -> dict[str, Any]:
    """What the server thinks of answer n."""
    return {
        "rationale": f'It says "An answer." {n} times; it should say why.',
        "red_flag": n % 11 == 0,
        "score": n % 5 + 1,
    }


def text_of(n: int) -> str:
    return json.dumps(verdict_on(n))


Bad = Callable[[int], Action]

ODD: dict[str, Bad] = {
    "plain": lambda n: say(text_of(n)),
    "fence": lambda n: say(f"```json\n{text_of(n)}\n```"),
    "prose": lambda n: say(f"Well {{let me}} see. {text_of(n)} That is all."),
    "think": lambda n: say(f'<think>{{"score": 1, "red_flag": true}}?</think>{text_of(n)}'),
    "think without its opening": lambda n: say(f"hm, hm</think>\n{text_of(n)}"),
    "in reasoning": lambda n: say("", reasoning=text_of(n)),
    "in the other reasoning": lambda n: say("", reasoning=text_of(n), reasoning_field="reasoning"),
    "not streamed": lambda n: say_plain(text_of(n)),
    "in parts": lambda n: stream(delta([{"type": "text", "text": text_of(n)}]), delta(finish="stop"), "[DONE]"),
    "comments": lambda n: stream(b"6\r\n: hi\n\n\r\n" * 3, delta(text_of(n), finish="stop"), "[DONE]"),
    "closed behind": lambda n: then_close(say(text_of(n))),
    "without [DONE]": lambda n: say(text_of(n), done=False),
    "another model": lambda n: say(text_of(n), model="somebody-else"),
    "slow": lambda n: after(0.1, say(text_of(n), every_s=0.001)),
}
"""Strange ways to say it, which cost nothing."""

ILL: dict[str, Bad] = {
    "reset": lambda n: reset_before_header(),
    "closed": lambda n: close_before_header(),
    "broken off": lambda n: break_off(text_of(n)[:30]),
    "broken off politely": lambda n: break_off(text_of(n)[:30], end="close"),
    "no finish": lambda n: stream(delta(text_of(n)[:40])),
    "silent": lambda n: stream(),
    "429": lambda n: error(429, "slow down", {"retry-after": "0"}),
    "429 in ms": lambda n: error(429, {"error": "rate limited"}, {"retry-after-ms": "30"}),
    "500": lambda n: error(500, "oops", {"retry-after": "0"}),
    "502": lambda n: error(502, "<html>bad gateway</html>", {"retry-after": "0"}),
    "loading": lambda n: openai_error(503, "Loading model", type="unavailable_error", code=503),
    "error within 200": lambda n: plain({"error": {"message": "overloaded", "code": 503}}),
    "error within the stream": lambda n: stream(delta("{"), {"error": {"message": "overloaded", "code": 503}}),
    "no json_schema": lambda n: error(400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}),
    "no temperature": lambda n: openai_error(400, "Unsupported parameter: 'temperature'", param="temperature"),
    "no system role": lambda n: openai_error(400, "System role not supported"),
    "overflow": lambda n: openai_error(400, "too long", type="exceed_context_size_error", n_prompt_tokens=9, n_ctx=8),
    "out of memory": lambda n: openai_error(500, "CUDA out of memory"),
    "cut off": lambda n: say(text_of(n)[:40], finish="length", usage=usage_of(9, 300)),
    "empty": lambda n: say(""),
    "only thinking": lambda n: say("", reasoning="a 5? a 1?", finish="length", usage=usage_of(9, 300)),
    "unclosed thinking": lambda n: say(f"<think>{text_of(n)}"),
    "filtered": lambda n: say("I", finish="content_filter"),
    "score 10": lambda n: say('{"rationale": "!", "red_flag": false, "score": 10}'),
    "score 0": lambda n: say('{"rationale": "!", "red_flag": false, "score": 0}'),
    "score missing": lambda n: say('{"rationale": "!", "red_flag": false}'),
    "no JSON": lambda n: say("Five out of five!"),
    "not even text": lambda n: stream(event("\x00\x01 nonsense")),
}
"""Ways to fail. Some cost another try, some an unscored verdict, which the next run asks for again."""

LONG: dict[str, Bad] = {"stalled": lambda n: stall(), "stalled in the middle": lambda n: stall("{"),
                        "comments without end": lambda n: trickle_comments(0.5)}  # fmt: skip
"""These cost the whole time limit, so there are only a few."""

STUBBORN: dict[int, tuple[str, str]] = {
    7: ("cut off", "cut off at max_tokens 300"),
    123: ("score 10", "score"),
    200: ("only thinking", "used up by thinking"),
    321: ("overflow", "8 tokens"),
    444: ("empty", "said nothing"),
    499: ("no JSON", "no JSON object"),
}
"""Answers that the server never gets right, with a part of the cause."""


class Chaos:
    """What goes wrong at the k-th time that answer n is asked about is a function of seed, n and k."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.asked: Counter[int] = Counter()
        self.done: Counter[str] = Counter()
        self.brain = Brain()

    def __call__(self, request: Request) -> Action:
        text = request.text_of("user")
        if not request.is_chat:
            return self.brain(request)
        if "# Your report" in text:
            return say(json.dumps({"dimensions": {"helpful": {"score": 3, "rationale": "r"}, "safe": {"score": 4}}}))
        found = re.search(r"Question (\d+)\?", text)
        assert found is not None
        n = int(found[1])
        self.asked[n] += 1
        name, action = self.choose(n, self.asked[n])
        self.done[name] += 1
        return action

    def choose(self, n: int, time: int) -> tuple[str, Action]:
        if n in STUBBORN:
            name = STUBBORN[n][0]
            return name, ILL[name](n)
        chance = random.Random(f"{self.seed} {n}")
        ills = chance.choices([0, 1, 2, 3], [55, 30, 10, 5])[0]
        if time == 1 and chance.random() < 0.01:
            name, ways = chance.choice(list(LONG)), LONG
        elif time <= ills:
            name, ways = random.Random(f"{self.seed} {n} {time}").choice(list(ILL)), ILL
        else:
            name, ways = chance.choice(list(ODD)), ODD
        return name, ways[name](n)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def away(server: StandIn) -> None:
    """The server dies, and is there again later."""
    server.stop()
    time.sleep(AWAY_S)
    server.start()


@pytest.mark.parametrize("seed", [1, 2])
def test_in_the_end_every_verdict_is_there_and_right(cli: Cli, seed: int) -> None:
    prompts = [{"id": f"p{n:03}", "category": "c", "text": f"Question {n}?"} for n in range(TOTAL)]
    pack = {**PACK, "variants": PACK["variants"][:1], "prompts": prompts}
    bundle = make_bundle(cli.home / "runs" / "b", models=["m"], pack=pack, judged=0, reports=False, events=False)
    log = bundle / "judgements.jsonl"
    chaos, chance = Chaos(seed), random.Random(seed)
    with StandIn(chaos) as server:
        judge = {
            "endpoint": server.url,
            "model": "stand-in",
            "concurrency": 32,
            "timeout_s": TIMEOUT_S,
            "max_tokens": 300,
        }
        (cli.home / "touchstone.yaml").write_text(yaml.safe_dump({"judge": judge}), encoding="utf-8")

        for kill in range(KILLS):
            # Some of them before the server has said a word, some at the very moment of a write.
            enough = count(log) + chance.choice([0, 1, 20, 60, 90])
            with cli.start("judge", "--events") as process:
                while process.poll() is None and count(log) < enough:
                    time.sleep(0.002)
                process.kill()
                process.communicate()
            if kill == 2:
                # A half line, as a power cut leaves it.
                with log.open("ab") as file:
                    file.write(b'{"model": "m", "variant": "pl')

        dying = threading.Timer(0.5, away, [server])
        with cli.start("judge", "--events") as process:
            already = count(log)
            while process.poll() is None and count(log) < already + 10:
                time.sleep(0.002)
            dying.start()
            _, err = process.communicate(timeout=120)
        dying.join()
        assert process.returncode == 0, err

        runs = 1
        while {verdict["prompt_id"] for verdict in lines(log) if verdict["unscored"]} - {f"p{n:03}" for n in STUBBORN}:
            cli("judge", "--events")
            runs += 1
            assert runs < 10, "each run gets nearer to the end"

    verdicts = lines(log)
    assert [verdict["prompt_id"] for verdict in verdicts] == [prompt["id"] for prompt in prompts]
    for n, verdict in enumerate(verdicts):
        if n in STUBBORN:
            assert verdict["unscored"] and verdict["score"] == 0 and verdict["red_flag"] is None
            assert STUBBORN[n][1] in verdict["error"], verdict
        else:
            said = {name: verdict[name] for name in ("rationale", "red_flag", "score")}
            assert said == verdict_on(n) and not verdict["unscored"] and verdict["error"] is None

    view = judge_events.build_view(
        map(judge_events.parse_line, (bundle / "judge_events.jsonl").read_text(encoding="utf-8").splitlines())
    )
    assert view.done == view.total == TOTAL and view.unscored == len(STUBBORN) and view.finished
    last = judge_events.parse_line((bundle / "judge_events.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert isinstance(last, JudgeDone) and last.scored == TOTAL - len(STUBBORN)
    (report,) = lines(bundle / "reports.jsonl")
    assert report["dim_scores"] == {"helpful": 3, "safe": 4}
    assert (bundle / "scorecard.md").is_file()
    assert set(chaos.done) >= {*ODD} and len(set(chaos.done) & {*ILL}) > len(ILL) // 2
    assert set(chaos.done) & {*LONG}
