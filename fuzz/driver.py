"""Runs one target under atheris: `python -m fuzz.driver TARGET [libFuzzer's options] [folders]`."""

from __future__ import annotations

import sys
from importlib import import_module

import atheris  # type: ignore[import-untyped]


def main() -> None:
    with atheris.instrument_imports(include=["touchstone"]):
        target = import_module(f"fuzz.{sys.argv[1]}")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
