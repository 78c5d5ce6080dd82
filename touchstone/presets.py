"""A first touchstone.yaml from what is there: the usual local ports are asked which models they have.

`discover` asks, on this machine only; the rest is pure: which of the models is to judge, and the file's text.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from touchstone.chat.http import Endpoint
from touchstone.errors import EndpointError

ANSWER_S: Final = 2.0
"""A server on this machine that takes longer to list its models is busy with something else."""

MOST_MODELS: Final = 3
"""So many are asked at first; the others stand in the file as comments."""

MOST_LISTED: Final = 30


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kind of server usually is."""

    name: str
    url: str
    start: str
    """How to start it."""
    load: str
    """How to give it a model."""


PLACES: Final = (
    Place("LM Studio", "http://127.0.0.1:1234/v1", "lms server start", "lms get"),
    Place("Ollama", "http://127.0.0.1:11434/v1", "ollama serve", "ollama pull qwen3:4b"),
    Place(
        "llama.cpp", "http://127.0.0.1:8080/v1", "llama-server -m MODEL.gguf --port 8080", "start it with -m MODEL.gguf"
    ),
    Place("vLLM", "http://127.0.0.1:8000/v1", "vllm serve MODEL", "vllm serve MODEL"),
)


@dataclass(frozen=True, slots=True)
class Server:
    """One that answered."""

    place: Place
    models: tuple[str, ...] = ()
    """Those that can chat."""
    locked: bool = False
    """It wants an API key before it says anything."""


async def discover(places: Sequence[Place] = PLACES) -> list[Server]:
    """The servers that answer, all asked at once, in the order of `places`."""
    found = await asyncio.gather(*(_ask(place) for place in places))
    return [server for server in found if server is not None]


async def _ask(place: Place) -> Server | None:
    try:
        async with asyncio.timeout(ANSWER_S), Endpoint(place.url) as endpoint:
            try:
                await endpoint.greet()
            except EndpointError as error:
                return None if error.passing else Server(place, locked=True)
            return Server(place, tuple(chat_models(await endpoint.models())))
    except (TimeoutError, EndpointError):
        # Nobody there, or somebody else: those ports are popular.
        return None


_OTHER_KINDS: Final = re.compile(r"embed|rerank|whisper|(?:^|[-_/.])(?:tts|bge|clip)(?:[-_/.:]|$)", re.I)
_SIZE: Final = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)\s?([bm])(?![a-z0-9])", re.I)


def chat_models(names: Sequence[str]) -> list[str]:
    """The names without those of models that answer no questions, each once; none that no file could hold."""
    usable = [name for name in names if 0 < len(name) <= 500 and name.isprintable()]
    return [name for name in dict.fromkeys(usable) if not _OTHER_KINDS.search(name)]


def size(name: str) -> float:
    """Billions of parameters, as far as the name tells: `qwen3-8b` 8, `mixtral:8x7b` 56, `smollm2-135m` 0.135."""
    found = [
        float(times or 1) * float(number) * (1.0 if unit in "bB" else 0.001)
        for times, number, unit in _SIZE.findall(name)
    ]
    return max(found, default=0.0)


def choose(models: Sequence[str]) -> tuple[list[str], str]:
    """(models to ask, the one that judges): the largest judges, and is asked only where there is no other."""
    judge = max(models, key=size)
    return [model for model in models if model != judge] or [judge], judge


def chosen(servers: Sequence[Server]) -> Server | None:
    """The server that the config is made for: the first one with a model."""
    return next((server for server in servers if server.models), None)


_HEAD = """\
# What would otherwise be typed as options every day. Paths are relative to this file.
# Next: touchstone run (which is touchstone eval, touchstone judge and touchstone build in one go)

runs: runs
out: public
lang: en # of the site: en, de, or both: en,de

eval:
  pack: {pack} # or one that ships: everyday (English), ndassist (German)
"""

_TAIL = """\
  repeats: 1 # how often each question is asked
  temperature: 0.0
  max_tokens: 1024 # for an answer; models that think first need more, about 4096
  timeout_s: 300
"""

_JUDGE = """\
  max_tokens: 1024
  concurrency: 1 # calls at once; more where the server answers several at the same time
  # api_key_env: MY_API_KEY # the name of the variable that holds the key, for servers that want one
"""


def config_text(servers: Sequence[Server], pack: str) -> str:
    """touchstone.yaml for these servers; with none that has a model, one to be filled in."""
    server = chosen(servers)
    head = _HEAD.format(pack=_quoted(pack))
    if server is None:
        return head + _placeholders() + _TAIL + "\n# judge:\n#   endpoint: http://127.0.0.1:1234/v1\n#   model: NAME\n"
    models, judge = choose(server.models)
    lines = [f"  endpoint: {_quoted(server.place.url)} # {server.place.name}"]
    lines += [
        f"  # endpoint: {_quoted(other.place.url)} # {other.place.name}" for other in servers if other is not server
    ]
    lines += ["  models:", *(f"    - {_quoted(model)}" for model in models[:MOST_MODELS])]
    lines += [f"    # - {_quoted(model)}" for model in models[MOST_MODELS:MOST_LISTED]]
    if len(models) > MOST_LISTED:
        lines.append(f"    # and {len(models) - MOST_LISTED} more")
    why = (
        "judges itself here, which favours it; a larger one judges better"
        if judge in models
        else "the largest, going by the names; a model that is judged should not be the judge"
    )
    judging = [f"  endpoint: {_quoted(server.place.url)}", f"  model: {_quoted(judge)} # {why}"]
    return head + "\n".join(lines) + "\n" + _TAIL + "\njudge:\n" + "\n".join(judging) + "\n" + _JUDGE


def _placeholders() -> str:
    lines = ["  # No server with a model answered. Start one, and take the # away from its line and from models:"]
    lines += [f"  # endpoint: {place.url} # {place.name}: {place.start}" for place in PLACES]
    return "\n".join([*lines, "  # models: [NAME, ANOTHER]", ""])


def _quoted(text: str) -> str:
    """As YAML reads it back: JSON's strings are YAML's."""
    return json.dumps(text, ensure_ascii=False)


def findings(servers: Sequence[Server]) -> list[str]:
    """What to say about the servers: which one was taken, and what to do about the others or with none."""
    taken = chosen(servers)
    lines = []
    for server in servers:
        place = server.place
        if server.locked:
            lines.append(f"{place.name} at {place.url} wants an API key; name its variable in api_key_env")
        elif not server.models:
            lines.append(f"{place.name} at {place.url} has no model yet; give it one: {place.load}")
        else:
            use = "chosen" if server is taken else "in touchstone.yaml as a comment"
            lines.append(f"{place.name} at {place.url} has {len(server.models)} model(s); {use}")
    if taken is None:
        lines.append("no model was found on the usual ports; start a server, then fill in eval and judge:")
        lines += [f"  {place.name}: {place.start}" for place in PLACES]
    return lines
