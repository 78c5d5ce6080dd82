"""The table of faults in the docs names every test here, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT


def test_the_table_names_every_test() -> None:
    files = Path(__file__).parent.glob("test_*.py")
    tests = {
        name
        for path in files
        if path != Path(__file__)
        for name in re.findall(r"(?m)^def (test_\w+)", path.read_text())
    }
    rows = re.findall(r"(?m)^\| .* \| `(test_\w+)` \|$", (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"))
    assert set(rows) == tests
