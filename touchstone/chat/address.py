"""The endpoint's address and key as people write them, made fit for use; and what must never be printed. Pure.

localhost:1234                    -> http://localhost:1234/v1
http://host/v1/chat/completions   -> http://host/v1
https://me:secret@host/llm?v=2    -> https://host/llm/v1, basic auth, every request with ?v=2
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from touchstone.errors import EndpointError

HIDDEN: Final = "[hidden]"

_VERSION = re.compile(r"v\d+[a-z0-9]*")
_CALL = re.compile(r"/(?:chat/completions|completions|models)/*$")
_QUOTES: Final = " \t\r\n\v\f\"'`´“”„‟‘’‚‛«»‹›\u00a0\u200b\u200c\u200d\u2060\ufeff"
_SHORTEST_SECRET: Final = 4
_SHORTEST_KEY: Final = 16
"""Characters of a key that no answer holds by chance."""

_SERVERS: Final = {
    1234: 'is LM Studio running? Start its server (Developer tab, or "lms server start")',
    11434: 'is Ollama running? Start it with "ollama serve"',
    8080: 'is llama.cpp\'s server running? Start it with "llama-server -m MODEL.gguf --port 8080"',
    8000: 'is vLLM running? Start it with "vllm serve MODEL"',
}
"""What usually answers on a local port."""


class Secrets:
    """Takes the keys and passwords of one endpoint out of any text. Its repr shows none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        secrets = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
        self._forms = _forms(secrets)
        self._sure = _forms(secret for secret in secrets if _no_word(secret))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def in_answer(self, text: str) -> str:
        """The same for what a model said, which is measured: a key like `ollama` is a word there, and stays."""
        for form in self._sure:
            text = text.replace(form, HIDDEN)
        return text

    def __repr__(self) -> str:
        return "Secrets(…)"


def _forms(secrets: Iterable[str]) -> list[str]:
    """How a secret may be written, longest first."""
    forms = {
        form
        for secret in secrets
        for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], secret.replace("/", "\\/"))
    }
    return sorted(forms, key=len, reverse=True)


def _no_word(secret: str) -> bool:
    """Whether no text holds it by chance."""
    return len(secret) >= _SHORTEST_KEY and any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint is. Everything that may be secret is left out of the repr."""

    base: str
    """With the version, without a trailing slash: `http://localhost:1234/v1`. Free of secrets."""
    root: str
    """Without the version, for the servers' own routes."""
    host: str
    port: int | None
    query: str = field(default="", repr=False)
    """With its question mark, or empty; goes with every request."""
    authorization: str | None = field(default=None, repr=False)
    """Value of the Authorization header, None where there is nothing to show."""
    hide: Secrets = field(default_factory=lambda: Secrets(()), repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine, which no proxy of the environment can reach."""
        name = self.host.lower().rstrip(".")
        if name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified

    @property
    def advice(self) -> str:
        """What to do when nobody answers."""
        if self.is_loopback and self.port in _SERVERS:
            return _SERVERS[self.port]
        return "check the address and that the server runs"


def clean_key(key: str | None) -> str | None:
    """The key without the blanks and quotes that come along when it is pasted; None where nothing is left.

    Raises EndpointError where it cannot stand in a header. The message does not show it.
    """
    bare = (key or "").strip(_QUOTES)
    if not bare:
        return None
    if not all("!" <= char <= "~" for char in bare):
        raise EndpointError(
            "the API key holds a blank, a line break or a character that is not ASCII and cannot be sent; "
            "copy it again from where it was issued"
        )
    return bare


def _path_of(path: str) -> str:
    path = _CALL.sub("", path.rstrip("/")).rstrip("/")
    if any(_VERSION.fullmatch(part) for part in path.split("/")):
        return path
    return f"{path}/v1"


def _root_of(path: str) -> str:
    head, _, last = path.rpartition("/")
    return head if _VERSION.fullmatch(last) else path


def parse_address(url: str, api_key: str | None = None) -> Address:
    """The address and key of an endpoint. Raises EndpointError with the way to mend it and without secrets."""
    text = url.strip(_QUOTES)
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or not text.isprintable() or " " in text:
        raise EndpointError("the endpoint is no web address; write one like http://localhost:1234/v1")
    key = clean_key(api_key)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else None
    named = f"[{host}]" if ":" in host else host
    place = f"{parts.scheme}://{named}" + ("" if port is None else f":{port}")
    path = _path_of(quote(parts.path, safe="/%:@!$&'()*+,;=~"))
    values = [value for pair in parts.query.split("&") if (value := pair.partition("=")[2])]
    return Address(
        base=place + path,
        root=place + _root_of(path),
        host=host,
        port=port,
        query=f"?{parts.query}" if parts.query else "",
        authorization=f"Bearer {key}" if key else f"Basic {basic}" if basic else None,
        hide=Secrets([key or "", password, basic or "", *(value for value in values if len(value) >= 12)]),
    )
