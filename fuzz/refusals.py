"""What a server says when it says no: a failure with short words that are fit for a terminal, and without our key."""

from __future__ import annotations

from typing import Final

from fuzz.pieces import Choices
from touchstone.chat.address import parse_address
from touchstone.chat.classify import classify
from touchstone.errors import EndpointError

KEY: Final = "sk-very/s3cret+key=="
HEADERS: Final = ("retry-after", "content-type", "location", "x-ratelimit-reset", "server")
HIDE: Final = parse_address("http://localhost", KEY).hide


def check(data: bytes) -> None:
    choices = Choices(data)
    status = 100 + choices.number(500)
    headers = {HEADERS[choices.number(len(HEADERS))]: choices.text() for _ in range(choices.number(4))}
    body = choices.rest()
    failure = classify(status, headers, body.replace(b"KEY", KEY.encode()), now=1e9, hide=HIDE)
    words = str(failure)
    assert words and words.isprintable() and len(words) < 2000, words[:200]
    assert KEY not in words and KEY not in repr(failure)
    assert failure.retry_after_s is None or 0 <= failure.retry_after_s < 1e12, failure.retry_after_s
    url = body.decode("utf-8", "replace")
    try:
        address = parse_address(url, KEY)
    except EndpointError as error:
        assert str(error).isprintable() and KEY not in str(error)
    else:
        assert KEY not in repr(address) and address.base.isprintable() and " " not in address.base
        assert "@" not in address.base.split("/")[2] and "?" not in address.base
