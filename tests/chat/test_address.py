"""Addresses and keys as people write them."""

from __future__ import annotations

import pytest

from touchstone.chat.address import Address, Secrets, clean_key, parse_address
from touchstone.chat.advice import useless
from touchstone.chat.failure import ChatFailure
from touchstone.errors import EndpointError


@pytest.mark.parametrize(
    ("url", "base", "root"),
    [
        ("http://localhost:1234", "http://localhost:1234/v1", "http://localhost:1234"),
        ("http://localhost:1234/", "http://localhost:1234/v1", "http://localhost:1234"),
        ("http://localhost:1234/v1", "http://localhost:1234/v1", "http://localhost:1234"),
        ("http://localhost:1234/v1/", "http://localhost:1234/v1", "http://localhost:1234"),
        (" http://localhost:1234/v1/chat/completions \n", "http://localhost:1234/v1", "http://localhost:1234"),
        ("http://localhost:1234/v1/models", "http://localhost:1234/v1", "http://localhost:1234"),
        ("localhost:1234", "http://localhost:1234/v1", "http://localhost:1234"),
        ("192.168.0.7:8080", "http://192.168.0.7:8080/v1", "http://192.168.0.7:8080"),
        ("http://[::1]:8080", "http://[::1]:8080/v1", "http://[::1]:8080"),
        ("https://host/llm", "https://host/llm/v1", "https://host/llm"),
        ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1", "https://api.groq.com/openai"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai", "https://host/v1beta/openai"),
        ("https://me:pw@host/v1?api-version=2#frag", "https://host/v1", "https://host"),
        ("HTTP://Host:80/V1x", "http://host:80/V1x/v1", "http://host:80/V1x"),
    ],
)
def test_address(url: str, base: str, root: str) -> None:
    address = parse_address(url)
    assert (address.base, address.root) == (base, root)


@pytest.mark.parametrize(
    "url", ["", "   ", "http://", "ftp://host", "file:///etc/passwd", "http://host:notaport", "http://host:99999",
            "http://a b", "http://[::1", "http://host\x00", "http:///v1"]
)  # fmt: skip
def test_what_is_no_address_is_said_with_an_example(url: str) -> None:
    with pytest.raises(EndpointError, match="http://localhost:1234/v1"):
        parse_address(url)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("localhost:1", True),
        ("http://LOCALHOST.:1", True),
        ("http://app.localhost", True),
        ("http://127.8.8.8", True),
        ("http://[::1]", True),
        ("http://0.0.0.0:1", True),
        ("http://192.168.0.1", False),
        ("http://localhost.example.org", False),
        ("http://example.org", False),
    ],
)
def test_loopback(url: str, loopback: bool) -> None:
    assert parse_address(url).is_loopback is loopback


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:1234", "is LM Studio running"),
        ("localhost:11434", "is Ollama running"),
        ("localhost:8080", "llama-server"),
        ("localhost:8000", "is vLLM running"),
        ("localhost:5000", "check the address"),
        ("example.org:1234", "check the address"),
    ],
)
def test_advice_by_port(url: str, words: str) -> None:
    assert words in parse_address(url).advice


def test_key_wins_over_credentials_in_the_address() -> None:
    assert parse_address("http://me:pw@host", "the-key").authorization == "Bearer the-key"
    assert parse_address("http://me:pw@host").authorization == "Basic bWU6cHc="
    assert parse_address("http://host").authorization is None


def test_percent_encoded_credentials_are_decoded() -> None:
    assert parse_address("http://me:p%40w@host").authorization == "Basic bWU6cEB3"


@pytest.mark.parametrize(
    ("key", "clean"),
    [
        ("abcd", "abcd"),
        (" abcd\r\n", "abcd"),
        ("“abcd”", "abcd"),
        ("\ufeffabcd\u200b", "abcd"),
        ("", None),
        (None, None),
        ("''", None),
    ],
)
def test_clean_key(key: str | None, clean: str | None) -> None:
    assert clean_key(key) == clean


def test_secrets_are_hidden_in_every_form_but_short_ones_are_none() -> None:
    hide = Secrets(["a/b+c=d", "xy"])
    assert hide("a/b+c=d a%2Fb%2Bc%3Dd a\\/b+c=d xy") == "[hidden] [hidden] [hidden] xy"
    assert "a/b" not in repr(hide)


def test_repr_of_an_address_shows_no_secrets() -> None:
    text = repr(parse_address("http://me:hunter2@host?token=abcdefgh", "the-key"))
    assert not any(secret in text for secret in ("hunter2", "abcdefgh", "the-key"))


@pytest.mark.parametrize(
    ("kind", "key", "words"),
    [
        ("unreachable", None, "nobody answers at http://localhost:1234/v1 (because); is LM Studio running"),
        ("key", "the-key", "does not accept the API key (because); check the variable that api_key_env names"),
        ("key", None, "wants an API key (because); set api_key_env"),
        ("model", None, "has no model 'm' (because); it has: a, b"),
        ("quota", None, "the quota at http://localhost:1234/v1 is used up (because)"),
        ("address", None, "is no chat endpoint (because); check the address"),
        ("timeout", None, "does not tell which models it has (because)"),
    ],
)
def test_useless_endpoint_is_told_in_one_line_with_the_next_step(kind: str, key: str | None, words: str) -> None:
    address: Address = parse_address("localhost:1234", key)
    text = useless(address, ChatFailure(kind, "because"), "m", ["a", "b"])  # type: ignore[arg-type]
    assert words in text
    assert text.isprintable()


def test_long_lists_of_models_are_cut() -> None:
    names = [f"model-{i}" for i in range(300)]
    text = useless(parse_address("localhost"), ChatFailure("model", "because"), "m", names)
    assert "and 290 more" in text


def test_no_models_at_all() -> None:
    text = useless(parse_address("localhost"), ChatFailure("model", "because"), "m")
    assert "load one in the server" in text
