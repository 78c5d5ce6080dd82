"""Asking a strong reference about a local judge, on disk: writes the request and its form, reads the filled form back.

Whatever is refused leaves the bundle as it was. A form that anybody has filled in is never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from touchstone.bundle import open_bundle
from touchstone.contracts.lines import Cell
from touchstone.contracts.pack import Pack
from touchstone.contracts.response import MAX_BYTES, MetaResponse, parse_meta_response, together
from touchstone.errors import BundleError, InputError, Issue, brief
from touchstone.i18n import Words
from touchstone.judge_compare import row_of
from touchstone.judge_words import lead
from touchstone.meta_evaluation import MetaEvaluation, answered_cells, evaluate
from touchstone.meta_request import Part, split
from touchstone.quality_md import quality_fields, render_quality_md
from touchstone.store.bundles import read_document
from touchstone.store.lock import exclusive
from touchstone.store.write import machine_error, retry_locked, save
from touchstone.view import BundleView

QUALITY_NAME: Final = "judge_quality.md"
_REQUEST: Final = re.compile(r"judge_meta_request(?:-([1-9]\d*))?\.md")
_RESPONSE: Final = re.compile(r"judge_meta_response(?:-([1-9]\d*))?\.yaml")
STDIN: Final = "-"


def _suffix(part: Part) -> str:
    return "" if part.of == 1 else f"-{part.number}"


@dataclass(frozen=True, slots=True)
class Written:
    """One part of an export."""

    request: Path
    form: Path
    kept: bool
    """The form was filled in already and stays as it is."""
    text: str
    """The request."""
    cells: tuple[Cell, ...]


def export(bundle: Path, max_tokens: int | None = None) -> list[Written]:
    """Write request and form, in parts if need be. Raises TouchstoneError; nothing is written then."""
    with exclusive(bundle, "judge-meta export"):
        view, pack = _judged(bundle)
        parts = split(view, pack, Words(pack.language), max_tokens)
        forms = {bundle / f"judge_meta_response{_suffix(part)}.yaml": part for part in parts}
        kept = {path for path in _responses(bundle) if _filled(path)}
        for path in sorted(kept):
            if path not in forms or not _answers(path, forms[path]):
                raise BundleError(
                    f"{path}: is filled in already, for other cells than this export asks about; run"
                    f" `touchstone judge-meta ingest {bundle}` first, or move it away"
                )
        written = [
            Written(bundle / f"judge_meta_request{_suffix(part)}.md", path, path in kept, part.request, part.cells)
            for path, part in forms.items()
        ]
        for each in written:
            save(each.request, each.text)
            if not each.kept:
                save(each.form, forms[each.form].form)
        _remove_stale(bundle, {path for each in written for path in (each.request, each.form)})
        return written


def _judged(bundle: Path) -> tuple[BundleView, Pack]:
    """The bundle, if there is a judge in it to be checked."""
    view = open_bundle(bundle).whole()
    if not view.reports:
        raise BundleError(
            f"{bundle}: there are no reports of a judge here, so there is nothing to check; run touchstone judge first:"
            f" `touchstone judge --bundle {bundle}`"
        )
    if view.pack is None:
        raise BundleError(f"{bundle}: has no readable pack.yaml, so no dimensions; `touchstone check` says more")
    if not answered_cells(view):
        raise BundleError(f"{bundle}: has no answers that a reference could score; run `touchstone eval` first")
    return view, view.pack


def _responses(bundle: Path) -> list[Path]:
    """The forms in the bundle, by their number."""
    found = [(int(match[1] or 0), path) for path in bundle.iterdir() if (match := _RESPONSE.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _filled(path: Path) -> bool:
    """Whether there is anything in the form that would be lost; what cannot be read was written by somebody."""
    data = _read(path)
    try:
        response = parse_meta_response(data, str(path))
    except InputError:
        return True
    return response.filled or bool(response.reference)


def _answers(path: Path, part: Part) -> bool:
    """Whether the filled form is about the cells of this part; one that cannot be read may be."""
    try:
        response = parse_meta_response(_read(path), str(path))
    except InputError:
        return True
    return {each.cell(part.cells) for each in response.cells if each.filled} <= set(part.cells)


def _remove_stale(bundle: Path, current: set[Path]) -> None:
    """Parts of an earlier export that was cut in another way; none of their forms is filled in."""
    for path in sorted(bundle.iterdir()):
        if path not in current and (_REQUEST.fullmatch(path.name) or _RESPONSE.fullmatch(path.name)):
            try:
                retry_locked(path.unlink)
            except OSError as error:
                raise machine_error(path, error) from error


@dataclass(frozen=True, slots=True)
class Ingested:
    """What came of an ingest."""

    path: Path
    evaluation: MetaEvaluation
    sentence: str
    """The finding, in English for the terminal."""


def ingest(bundle: Path, responses: Sequence[tuple[str, bytes]], created: datetime) -> Ingested:
    """judge_quality.md from these responses (source, bytes), without any from the forms in the bundle.

    Raises TouchstoneError; nothing is written then.
    """
    with exclusive(bundle, "judge-meta ingest"):
        view, pack = _judged(bundle)
        response = _together(bundle, responses or [(str(path), _read(path)) for path in _responses(bundle)])
        evaluation = evaluate(view, pack, response)
        if not any(each.given is not None for each in evaluation.cells):
            raise BundleError(
                "\n".join(
                    (*evaluation.remarks, f"{bundle}: no cell of this run is filled in, so there is nothing to read")
                )
            )
        path = bundle / QUALITY_NAME
        fields = quality_fields(view, evaluation, created)
        save(path, render_quality_md(fields, evaluation, Words(pack.language)))
        return Ingested(path, evaluation, lead(row_of(fields, view.name), Words("en")))


def _together(bundle: Path, responses: Sequence[tuple[str, bytes]]) -> MetaResponse:
    if not responses:
        raise BundleError(
            f"{bundle}: there is no judge_meta_response.yaml; run `touchstone judge-meta export {bundle}` first"
        )
    parts: list[MetaResponse] = []
    issues: list[Issue] = []
    for source, data in responses:
        try:
            parts.append(parse_meta_response(data, source))
        except InputError as error:
            issues += error.issues
    if issues:
        raise InputError(issues)
    sources = ", ".join(source for source, _ in responses)
    if not any(part.filled for part in parts):
        path = "cells[0].fresh_scores.dimensions"
        raise InputError([Issue(sources, None, f"nothing is filled in ({path} and all the others are null)")])
    names = {part.reference.strip() for part in parts if part.reference and part.filled}
    if len(names) > 1:
        listed = " and ".join(repr(brief(name)) for name in sorted(names))
        raise InputError([Issue(sources, None, f"reference: {listed} differ; one report has one reference")])
    return together(parts)


def _read(path: Path) -> bytes:
    """A form's bytes. Raises InputError for what is no ordinary file, MachineError if it cannot be read."""
    try:
        data = read_document(path, MAX_BYTES)
    except OSError as error:
        raise machine_error(path, error) from error
    if data is None:
        raise InputError([Issue(str(path), None, "is no ordinary file, or a link; name the file itself")])
    return data


def read_response(path: Path) -> tuple[str, bytes]:
    """A response from anywhere on this machine. Raises InputError, MachineError."""
    if not path.exists():
        raise InputError([Issue(str(path), None, "no such file")])
    if path.is_dir():
        raise InputError([Issue(str(path), None, "is a folder; name the file itself")])
    try:
        with path.open("rb") as file:
            # No more than what shows that it is too large: it may be a device without an end.
            return str(path), file.read(MAX_BYTES + 1)
    except OSError as error:
        raise machine_error(path, error) from error
