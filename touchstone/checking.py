"""What is wrong with a bundle, a pack or a response: every place, with the way to mend it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from touchstone import events, judge_events
from touchstone.bundle import open_bundle
from touchstone.contracts.config import parse_config
from touchstone.contracts.lines import Answer, RepeatedVerdict, Report, Verdict
from touchstone.contracts.manifest import parse_manifest
from touchstone.contracts.pack import parse_pack
from touchstone.contracts.response import parse_meta_response
from touchstone.errors import BundleError, InputError, Issue
from touchstone.jsonsource import MAX_LINE_BYTES, Refused, parse_model
from touchstone.load import read_resources
from touchstone.store.bundles import ARTIFACTS, LOGS, is_bundle, read_document
from touchstone.store.lines import LogTail

Parse = Callable[[bytes], object]

_FORM: Final = re.compile(rb"""^\s*["']?fresh_scores["']?\s*:""", re.MULTILINE)
"""An answer form, whatever it is called and whatever a chat put around it."""

_LINES: Final[dict[str, Parse]] = {
    "answers.jsonl": lambda data: parse_model(Answer, data),
    "judgements.jsonl": lambda data: parse_model(Verdict, data),
    "judge_events.jsonl": judge_events.read_event,
    "reports.jsonl": lambda data: parse_model(Report, data),
    "events.jsonl": events.read_event,
    "resources.jsonl": read_resources,
    "self_consistency.jsonl": lambda data: parse_model(RepeatedVerdict, data),
}


def _log_findings(path: Path, parse: Parse) -> Iterator[str]:
    tail = LogTail(path)
    for line in tail.read():
        place = f"{path}:{line.index + 1}"
        if line.data is None:
            yield f"{place}: longer than {MAX_LINE_BYTES} bytes; the line is skipped"
        elif not line.data.strip():
            yield f"{place}: empty line; it is skipped"
        else:
            try:
                parse(line.data)
            except Refused as refused:
                yield f"{place}: {refused}; the line is skipped"
    if tail.half:
        yield f"{path}:{tail.index + 1}: the last line has no end yet; it counts once it has"


def check_file(path: Path) -> list[str]:
    """Findings about one file: a log by its name, else a pack, a config or an answer form by what is in it."""
    if path.name in LOGS:
        return list(_log_findings(path, _LINES[path.name]))
    parse: Callable[[bytes, str], object] = parse_pack
    if path.name == "bundle.yaml":
        parse = parse_manifest
    elif path.name == "touchstone.yaml":
        parse = parse_config
    elif path.name.startswith("judge_meta_response"):
        parse = parse_meta_response
    data = read_document(path)
    if data is None:
        return [str(Issue(str(path), None, "is no ordinary file, or a link; name the file itself"))]
    if parse is parse_pack and _FORM.search(data):
        parse = parse_meta_response
    try:
        parse(data, str(path))
    except InputError as error:
        return [str(issue) for issue in error.issues]
    return []


def check_bundle(bundle: Path) -> list[str]:
    """Findings about everything in a bundle. Raises BundleError if it is none."""
    if not is_bundle(bundle):
        raise BundleError(f"{bundle}: holds none of {', '.join(sorted(ARTIFACTS))}, so it is no run")
    findings = []
    documents = ["bundle.yaml", "pack.yaml", *sorted(p.name for p in bundle.glob("judge_meta_response*.yaml"))]
    for name in (*LOGS, *documents):
        if (bundle / name).exists() and not (bundle / name).is_symlink():
            findings += check_file(bundle / name)
    view = open_bundle(bundle).refresh()
    findings += [f"{bundle}: {note}" for note in view.notes]
    if view.pack is not None:
        known = {prompt.id for prompt in view.pack.prompts}
        strange = dict.fromkeys(
            key.prompt_id for key in map(view.keys.key, range(len(view.keys))) if key.prompt_id not in known
        )
        findings += [f"{bundle}: prompt {name!r} is not in pack.yaml; it counts, but has no text" for name in strange]
    return findings
