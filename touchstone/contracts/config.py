"""touchstone.yaml: what would otherwise be typed as flags every day. Pure; paths are resolved by the shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, field_validator, model_validator

from touchstone.contracts.base import Name, Written, from_yaml

RESERVED: Final = frozenset({"model", "messages", "stream"})
"""What `extra` must not set."""
SECRET: Final = frozenset(
    {"apikey", "authorization", "accesstoken", "authtoken", "bearer", "password", "secret", "token"}
)
"""Names, without case and signs, of what `extra` must not hold: it is written down."""

Text = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
Lang = Literal["en", "de"]


def _extra(value: dict[str, Any]) -> dict[str, Any]:
    """What goes into every request as it stands: JSON, and nothing that the request is made of."""
    taken = sorted(RESERVED & value.keys())
    if taken:
        raise ValueError(f"must not set {', '.join(taken)}; touchstone does that itself")
    keys = sorted(name for name in _names(value) if re.sub("[^a-z]", "", name.lower()) in SECRET)
    if keys:
        raise ValueError(
            f"must not hold {', '.join(keys)}; it is kept in bundle.yaml and shown on pages. "
            "Put the key into an environment variable and name that in api_key_env"
        )
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(
            "must hold only what JSON can say (text, numbers, true, false, null, lists, mappings)"
        ) from None
    return value


def _names(value: Any) -> Iterator[str]:
    """All keys of mappings in it, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


Extra = Annotated[dict[str, Any], AfterValidator(_extra)]


class EvalConfig(Written):
    """`eval:` which pack is asked of which models, and how."""

    pack: Text | None = None
    models: list[Name] = []
    variants: list[Text] | None = None
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1
    endpoint: Text | None = None
    api_key_env: Text | None = None
    temperature: Temperature = 0.0
    max_tokens: Tokens = 1024
    seed: int | None = None
    timeout_s: Seconds = 300.0
    extra: Extra = {}


class JudgeConfig(Written):
    """`judge:` which model judges, and how."""

    endpoint: Text | None = None
    endpoints: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    """Several servers with the same model, instead of one."""
    model: Name | None = None
    api_key_env: Text | None = None
    temperature: Temperature = 0.0
    max_tokens: Tokens = 1024
    timeout_s: Seconds = 300.0
    concurrency: Annotated[int, Field(ge=1, le=64)] = 1
    """Calls under way at once, for each endpoint."""
    second_try_max_tokens: Tokens | None = None
    """If set, a reply that cannot be used is asked for once more, briefly, with this budget."""
    prompt: Text | None = None
    language: Lang | None = None
    extra: Extra = {}

    @property
    def servers(self) -> tuple[str, ...]:
        """The endpoints, however many were given; empty where none was."""
        return tuple(self.endpoints or ([] if self.endpoint is None else [self.endpoint]))

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if self.endpoint is not None and self.endpoints is not None:
            raise ValueError("must name either endpoint or endpoints, not both")
        if len(set(self.servers)) != len(self.servers):
            raise ValueError(
                "must name each server once in endpoints; concurrency says how many calls each gets at once"
            )
        return self


class PublishConfig(Written):
    """`publish:` what goes out with a site; everything does that is not named here."""

    answers: bool = True
    reasoning: bool = True
    rationales: bool = True
    prompts: bool = True
    host: bool = True
    noindex: bool = False
    """Ask search engines to leave the site out."""


class Config(Written):
    """The whole file. Everything has a default, so an empty file is a valid one."""

    runs: Text = "runs"
    out: Text = "public"
    docs: Text | None = None
    lang: list[Lang] = ["en"]
    timezone: Text | None = None
    eval: EvalConfig = EvalConfig()
    judge: JudgeConfig = JudgeConfig()
    publish: PublishConfig = PublishConfig()
    max_site_mb: Annotated[float, Field(gt=0, le=1_000_000)] = 900.0
    """GitHub Pages ends at 1 GB; over it the oldest runs keep their result page alone."""

    @field_validator("lang", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return value.replace(" ", "").split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known_zone(self) -> Self:
        if self.timezone is not None:
            try:
                ZoneInfo(self.timezone)
            except Exception:
                raise ValueError(f"timezone {self.timezone!r} is unknown; write one like Europe/Berlin") from None
        if not self.lang or len(set(self.lang)) != len(self.lang):
            raise ValueError("lang must name each language once, the first one for the site's root")
        return self


def parse_config(text: str | bytes, source: str) -> Config:
    """The config from YAML text. Raises InputError with all issues."""
    return from_yaml(Config, text or "{}", source)


def parse_judge_config(text: str | bytes, source: str) -> JudgeConfig:
    """A file for `--judge-config`, of the same shape as `judge:`. Raises InputError with all issues."""
    return from_yaml(JudgeConfig, text or "{}", source)
