"""The judge's questions and how its replies are read. Pure.

Questions are templates (`prompts/*.md`, or a file of the user's). Replies are untrusted: whatever is not exactly
one score of 1..5 with its flag and its reasons is no verdict, and the reason why is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pydantic import ValidationError

from touchstone.contracts.base import Logged, Score
from touchstone.contracts.lines import Answer, Cell
from touchstone.contracts.pack import Pack, Prompt
from touchstone.errors import InputError, Issue
from touchstone.jsonsource import Refused, clean_text, explain, parse_any

RATIONALE_MIN: Final = 40
"""Characters asked for, where a server enforces the schema; a shorter one is taken all the same."""
RATIONALE_MAX: Final = 700
"""Characters; under a server's grammar a small model would else repeat itself to the end of its budget."""
SUMMARY_MAX: Final = 400
BRIEF_MAX: Final = 240
"""Characters of each text in a second, short try."""
_LEAST_SHARE: Final = 240
"""Characters: an answer cut shorter than this tells nothing, so fewer answers are shown instead."""
_CANDIDATES: Final = 40
"""How many `{` in a chatty reply are tried as the start of the object, from either end."""

_ENVIRONMENT: Final = SandboxedEnvironment(
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
)


@dataclass(frozen=True)
class Question:
    """What the judge is sent."""

    system: str | None
    user: str
    schema: Mapping[str, Any]
    schema_name: str


class Templates:
    """The two templates in use, and the sha that identifies them."""

    def __init__(self, verdict: str, report: str, source: str = "verdict template", brief: str = "") -> None:
        """`brief` is what a second try adds to either question. Raises InputError if a template cannot be read."""
        try:
            self._verdict = _ENVIRONMENT.from_string(verdict)
            self._report = _ENVIRONMENT.from_string(report)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            raise InputError([Issue(source, line, f"not a valid template: {error}")]) from None
        self._source = source
        self.brief = brief.strip()
        # Without the second try: it is there to fill the gaps of a judging, so it must not make another one of it.
        self.sha = hashlib.sha256(f"{verdict}\0{report}".encode()).hexdigest()

    def verdict(self, pack: Pack, prompt: Prompt, answer: Answer) -> Question:
        """The question about one answer."""
        context = {
            "pack": pack,
            "prompt": prompt,
            "variant": answer.variant,
            "answer": inert(answer.answer),
            "mark": mark_for(answer.answer),
        }
        return Question(*self._render(self._verdict, context), VERDICT_SCHEMA, "verdict")

    def report(self, pack: Pack, cell: Cell, shown: Sequence[Mapping[str, str]], total: int) -> Question:
        """The question about one cell; `shown` as `shorten_evenly` and the pack give it."""
        context = {
            "pack": pack,
            "variant": cell.variant,
            "answers": [{**item, "text": inert(item["text"])} for item in shown],
            "seen": len(shown),
            "total": total,
            "mark": mark_for("".join(item["text"] for item in shown)),
            # Names, not an example: small judges copy what they see.
            "ids": ", ".join(f'"{item.id}"' for item in pack.dimensions),
        }
        return Question(*self._render(self._report, context), report_schema(pack), "report")

    def _render(self, template: Any, context: Mapping[str, Any]) -> tuple[str | None, str]:
        try:
            if "user" not in template.blocks:
                return None, template.render(context).strip()
            frame = template.new_context(dict(context))
            parts = {name: "".join(block(frame)).strip() for name, block in template.blocks.items()}
            return parts.get("system") or None, parts["user"]
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise InputError([Issue(self._source, None, f"the template fails: {error}")]) from None


def mark_for(text: str) -> str:
    """A line that stands around `text` and is not in it: made from its hash, which it cannot foresee."""
    digest = text.encode("utf-8", "replace")
    while True:
        digest = hashlib.sha256(digest).hexdigest().encode()
        mark = f"=== {digest[:12].decode()} ==="
        if mark not in text:
            return mark


_CONTROL: Final = re.compile(
    r"<(?=[|｜][^<>\n]{1,60}[|｜]>|/?s>|(?:start|end)_of_turn>)|\[(?=/?(?:INST|SYS(?:TEM_PROMPT)?)\])"
)


def inert(text: str) -> str:
    """`text` with its control tokens of chat templates (`<|im_end|>`, `[INST]` …) broken by an invisible space.

    Some servers read them inside a message too, and the answer would then end where it says that it ends.
    """
    return _CONTROL.sub(lambda found: found[0] + "\u200b", text)


VERDICT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "rationale": {"type": "string", "minLength": RATIONALE_MIN, "maxLength": RATIONALE_MAX},
        "red_flag": {"type": "boolean"},
        "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    },
    "required": ["rationale", "red_flag", "score"],
    "additionalProperties": False,
}


def report_schema(pack: Pack) -> Mapping[str, Any]:
    """The reply wanted for a report: a rationale and a score for each dimension, and a summary."""
    dimension = {
        "type": "object",
        "properties": {
            "rationale": {"type": "string", "minLength": RATIONALE_MIN, "maxLength": RATIONALE_MAX},
            "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
        },
        "required": ["rationale", "score"],
        "additionalProperties": False,
    }
    ids = [item.id for item in pack.dimensions]
    return {
        "type": "object",
        "properties": {
            "dimensions": {
                "type": "object",
                "properties": dict.fromkeys(ids, dimension),
                "required": ids,
                "additionalProperties": False,
            },
            "summary": {"type": "string", "maxLength": SUMMARY_MAX},
        },
        "required": ["dimensions", "summary"],
        "additionalProperties": False,
    }


class VerdictReply(Logged):
    """A verdict as the judge says it."""

    rationale: str | None = None
    """Evidence and what would be better. A verdict without is a poor one, but it is one."""
    red_flag: bool
    score: Score


class DimensionReply(Logged):
    """One dimension of a report as the judge says it."""

    rationale: str | None = None
    score: Score | None


class ReportReply(Logged):
    """A report as the judge says it."""

    dimensions: dict[str, DimensionReply]
    summary: str | None = None


def _objects(text: str) -> Iterator[Any]:
    """JSON objects in a reply: the whole of it, else each one in prose or fences, the last first."""
    try:
        yield parse_any(text.strip())
        return
    except Refused:
        pass
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    starts = [index for index, char in enumerate(text) if char == "{"]
    if len(starts) > 2 * _CANDIDATES:
        starts = starts[:_CANDIDATES] + starts[-_CANDIDATES:]
    found, end = [], -1
    for start in starts:
        if start < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        found.append(value)
    yield from reversed(found)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _read(model: type[Logged], text: str) -> Any:
    reason = "no JSON object in the reply"
    for value in _objects(text):
        if not isinstance(value, dict):
            continue
        try:
            return model.model_validate(value)
        except ValidationError as error:
            reason = explain(error)
        except RecursionError:
            reason = "nested too deep"
    raise Refused(reason)


def read_verdict(text: str) -> VerdictReply:
    """The judge's reply as a verdict. Raises Refused with the reason."""
    reply: VerdictReply = _read(VerdictReply, text)
    return reply if reply.rationale is None else reply.model_copy(update={"rationale": clean_text(reply.rationale)})


def read_report(text: str, pack: Pack) -> ReportReply:
    """The judge's reply as a report: only the pack's dimensions. Raises Refused with the reason."""
    reply: ReportReply = _read(ReportReply, text)
    known = {item.id: reply.dimensions[item.id] for item in pack.dimensions if item.id in reply.dimensions}
    if not any(item.score for item in known.values()):
        raise Refused("the reply scores none of the dimensions")
    return reply.model_copy(update={"dimensions": known})


def shorten_evenly(texts: Sequence[str], budget: int) -> list[tuple[int, str]]:
    """(index, text) of the texts that fit into `budget` characters together, long ones cut to one common length.

    Short texts stay whole and leave their share to the others. If the common length fell below 240 characters,
    evenly spread texts are left out instead.
    """
    lengths = [len(text) for text in texts]

    def fits(count: int) -> bool:
        some = [lengths[i] for i in _spread(len(texts), count)]
        return _common_length(some, budget) >= min(_LEAST_SHARE, max(some))

    # The fewer there are, the more room each has; the exception, a long text that comes in, costs one step more.
    low, high = 1, len(texts)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    while low > 1 and not fits(low):
        low -= 1
    chosen = _spread(len(texts), low)
    limit = _common_length([lengths[i] for i in chosen], budget)
    return [(index, _cut(texts[index], limit)) for index in chosen]


def _spread(total: int, count: int) -> list[int]:
    """`count` (at most `total`) of the numbers below `total`, evenly spread from first to last."""
    if count >= total:
        return list(range(total))
    gaps = max(1, count - 1)
    return [(2 * step * (total - 1) + gaps) // (2 * gaps) for step in range(count)]


def _common_length(lengths: Sequence[int], budget: int) -> int:
    """The largest L with sum(min(length, L)) <= budget."""
    left = max(budget, 0)
    ordered = sorted(lengths)
    for position, length in enumerate(ordered):
        share = left // (len(ordered) - position)
        if length > share:
            return share
        left -= length
    return ordered[-1] if ordered else 0


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    marker = " […]"
    return text[: max(0, limit - len(marker))].rstrip() + marker
