"""What people write, as YAML: packs, configs, the answer form, bundle.yaml. A model, or all issues with their lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from touchstone.contracts.config import parse_config, parse_judge_config
from touchstone.contracts.manifest import parse_manifest
from touchstone.contracts.pack import parse_pack
from touchstone.contracts.response import parse_meta_response
from touchstone.errors import InputError

READERS: Final[dict[str, Callable[[bytes, str], Any]]] = {
    "pack": parse_pack,
    "config": parse_config,
    "judge config": parse_judge_config,
    "manifest": parse_manifest,
    "response": parse_meta_response,
}


def check(data: bytes) -> None:
    for name, read in READERS.items():
        try:
            read(data, "file.yaml")
        except InputError as error:
            assert error.issues, name
            lines = data.count(b"\n") + data.count(b"\r") + 2
            for issue in error.issues:
                assert issue.text and len(str(issue)) < 10_000, (name, str(issue)[:300])
                assert issue.line is None or 1 <= issue.line <= max(lines, 2 * len(data)), (name, issue.line)
