"""Hostile input for everything that reads: what a target promises, checked on any bytes.

    make fuzz                                      each target for a minute, with atheris where it has a wheel
    make fuzz ARGS="--only stream --seconds 3600"  one target for an hour

A target is a module with `check(data: bytes)`: it returns, or it fails with what should not have happened. The same
checks are run by the tests, on the kept corpus (`corpus/<target>/`) and on what hypothesis makes up, so that what
atheris once found stays found. Inputs that a fuzzing run adds go to a folder of their own; the few that are worth
keeping are copied into the corpus by hand.

    logs       lines of every log, one by one            →  a model or Refused; what is read is written and read alike
    cuts       a log in pieces                           →  the same lines and the same figures as in one piece
    yaml       packs, configs, forms, bundle.yaml        →  a model or InputError
    front      front matter, tables in judge_quality.md  →  fields or none
    replies    what a judge says                         →  a verdict, a report, or Refused
    stream     the body of a chat response, in pieces    →  a reply or ChatFailure, the same however it is cut
    refusals   errors of a server, addresses of one      →  ChatFailure or EndpointError, short, without our key
    markup     texts of models as HTML                   →  only tags, attributes and links that we chose
    rows       names and texts in rows of pages          →  nothing of them is markup
    vault      the same in notes for Obsidian            →  nothing that a plugin would run
    names      what strangers call things                →  names of files, safe everywhere, one for each
    http       requests on a raw socket                  →  an answer or a closed connection, and the server lives on
    hub        who joins, leaves and does not read       →  nobody misses a change without being told
"""

from typing import Final

TARGETS: Final = (
    "logs", "cuts", "yaml", "front", "replies", "stream", "refusals", "markup", "rows", "vault", "names", "http", "hub",
)  # fmt: skip
