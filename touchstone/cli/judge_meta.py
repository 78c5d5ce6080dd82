"""`touchstone judge-meta`: have a strong reference check the local judge, by way of a file and any chat window."""

from __future__ import annotations

from pathlib import Path

import click

from touchstone.cli.common import LocalPath, config_option, load_settings, note, tell, the_bundle


@click.group("judge-meta")
def judge_meta() -> None:
    """Check the judge against a strong model or a person: export a request, get it answered, ingest the answer."""


@judge_meta.command()
@click.argument("bundle", required=False, metavar="[DIR]", type=LocalPath())
@click.option(
    "--max-tokens", type=click.IntRange(min=1), metavar="N", help="Split the request into parts of about N tokens each."
)
@config_option
def export(bundle: Path | None, max_tokens: int | None, config: Path | None) -> None:
    """Write the request (judge_meta_request.md) and an empty form for the answer (judge_meta_response.yaml)."""
    from touchstone.meta_request import estimated_tokens
    from touchstone.meta_session import export as write

    path = the_bundle(bundle, load_settings(config))
    written = write(path, max_tokens)
    for each in written:
        size = f"{len(each.text)} characters, about {estimated_tokens(each.text)} tokens"
        tell(f"{each.request}: {size}, cells: {len(each.cells)}")
        tell(each.form)
        if each.kept:
            note(f"{each.form}: is filled in already and stays as it is")
    note(
        f"next: paste {'each request' if len(written) > 1 else 'the request'} into the chat of a strong model, save its"
        f" reply in place of the form beside it, then: touchstone judge-meta ingest {path}"
    )


@judge_meta.command()
@click.argument("bundle", required=False, metavar="[DIR]", type=LocalPath())
@click.option(
    "--response",
    "responses",
    multiple=True,
    metavar="FILE|-",
    help="A filled form, also as the chat gave it; - reads standard input. Repeatable.  [default: the run's own forms]",
)
@config_option
def ingest(bundle: Path | None, responses: tuple[str, ...], config: Path | None) -> None:
    """Read the filled form, compare it with the local judge, and write judge_quality.md."""
    import sys
    from datetime import UTC, datetime

    from touchstone.contracts.response import MAX_BYTES
    from touchstone.meta_session import STDIN, read_response
    from touchstone.meta_session import ingest as read_back

    path = the_bundle(bundle, load_settings(config))
    if responses.count(STDIN) > 1:
        raise click.UsageError("--response -: standard input can be read once only")
    given = [
        ("standard input", sys.stdin.buffer.read(MAX_BYTES + 1)) if name == STDIN else read_response(Path(name))
        for name in responses
    ]
    result = read_back(path, given, datetime.now(UTC))
    evaluation = result.evaluation
    for remark in evaluation.remarks:
        note(remark)
    for cell in evaluation.missing:
        note(f"not meta-evaluated: {cell.model} ({cell.variant})")
    if evaluation.reference is None:
        note("no reference is named (reference: at the top of the form); judges are then compared without it")
    tell(result.path)
    note(result.sentence)
    note("next: touchstone build")
