"""The wheel: what a person installs builds the same site as the checkout, with nothing of the checkout in reach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.making import make_bundle


def run(*command: str, home: Path, path: Path | None = None) -> str:
    """A command in `home`; `path` comes first on Python's search path."""
    env = {**os.environ, **({"PYTHONPATH": str(path)} if path is not None else {})}
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_builds_the_same_site_and_shows_the_demo(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), home=ROOT)
    (wheel,) = (tmp_path / "dist").glob("touchstone_judge-*.whl")
    installed = tmp_path / "installed"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(installed),
        str(wheel),
        home=tmp_path,
    )
    where = run(sys.executable, "-c", "import touchstone; print(touchstone.__file__)", home=tmp_path, path=installed)
    assert Path(where.strip()).is_relative_to(installed)
    make_bundle(tmp_path / "runs" / "r")
    command = [sys.executable, "-m", "touchstone", "build", "--lang", "en,de"]
    run(*command, "--out", "from-wheel", home=tmp_path, path=installed)
    run(*command, "--out", "from-checkout", home=tmp_path, path=ROOT)
    sites = [contents(tmp_path / name) for name in ("from-wheel", "from-checkout")]
    assert sites[0] == sites[1] and len(sites[0]) > 20
    start = run(sys.executable, "-m", "touchstone", "demo", "--once", "--no-open", home=tmp_path, path=installed)
    assert Path(start.strip()).is_file()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
