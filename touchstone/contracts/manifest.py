"""bundle.yaml: what was run, on what, when. Pure. Unknown keys are kept, because bundles outlive versions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from touchstone.contracts.base import from_yaml


class Lenient(BaseModel):
    """Kept across versions: unknown keys stay, and what is null is unknown."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class PackRef(Lenient):
    """Which pack, and which bytes of it."""

    id: str = Field(max_length=500)
    sha256: str | None = None


class Host(Lenient):
    """The machine that ran the models."""

    os: str | None = None
    cpu: str | None = None
    ram_bytes: int | None = Field(None, ge=0, le=10**18)
    gpu: str | None = None


class Manifest(Lenient):
    """bundle.yaml."""

    schema_: int = Field(1, alias="schema")
    created: datetime | None = None
    touchstone: str | None = None
    pack: PackRef | None = None
    models: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    repeats: int | None = Field(None, ge=1, le=1_000_000)
    params: dict[str, Any] | None = None
    endpoint: str | None = None
    host: Host | None = None
    peak_ram_bytes: int | None = Field(None, ge=0, le=10**18)
    derived_from: str | None = None
    source: str | None = None

    @field_validator("created")
    @classmethod
    def _utc(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value


def parse_manifest(text: str | bytes, source: str) -> Manifest:
    """bundle.yaml from text. Raises InputError."""
    return from_yaml(Manifest, text, source)
