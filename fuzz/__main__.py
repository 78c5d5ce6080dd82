"""`python -m fuzz`: runs the targets under atheris, in a virtual environment of its own.

What libFuzzer finds worth keeping goes to `.fuzz/found/<target>/`, an input that fails to `.fuzz/fault-<target>-…`.
A target fails on an exception that is none of its promises, on an input that takes longer than `--timeout` seconds,
and on more than 2 GB. Instrumented code is slow; so what took more than a second there, and what is kept, is run again
without atheris, and has to be done in one second of the processor.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import time
import venv
from importlib import import_module
from pathlib import Path
from typing import Final

from fuzz import TARGETS

ROOT: Final = Path(__file__).parent.parent
WORK: Final = ROOT / ".fuzz"
CORPUS: Final = ROOT / "fuzz" / "corpus"
MEMORY_MB: Final = 2048
SLOW_S: Final = 1.0


def python() -> Path:
    """The interpreter of the environment with atheris."""
    names = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return WORK / "venv" / Path(*names)


def install() -> bool:
    """Makes the environment; False where there is no wheel of atheris for this Python."""
    if not python().exists():
        venv.create(WORK / "venv", with_pip=True)
    pip = [str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "--only-binary", "atheris", "atheris"], check=False).returncode:
        return False
    subprocess.run([*pip, "--editable", str(ROOT)], check=True)
    return True


def replay(target: str) -> bool:
    """The kept corpus, and what was slow under atheris, once without it; False if one takes more than SLOW_S."""
    check = import_module(f"fuzz.{target}").check
    check(b"")  # what is made once, is made now
    quick = True
    for path in [*sorted((CORPUS / target).iterdir()), *sorted(WORK.glob(f"fault-{target}-slow-unit-*"))]:
        began = time.process_time()
        check(path.read_bytes())
        took = time.process_time() - began
        if took > SLOW_S:
            print(f"fuzz: {path}: {took:.1f} s", file=sys.stderr)
            quick = False
    return quick


def fuzz(target: str, seconds: int, timeout: int) -> int:
    """One target for some seconds; the exit code of libFuzzer."""
    found = WORK / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds}", f"-timeout={timeout}", f"-rss_limit_mb={MEMORY_MB}", "-max_len=65536"]
    limits.append("-report_slow_units=1")
    quiet = ["-print_final_stats=1", "-verbosity=1", f"-artifact_prefix={WORK}/fault-{target}-"]
    folders = [str(found), str(CORPUS / target)]
    command = [str(python()), "-m", "fuzz.driver", target, *limits, *quiet, *folders]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Feed hostile input to everything that reads.")
    parser.add_argument("--only", action="append", choices=TARGETS, help="a target; may be repeated")
    parser.add_argument("--seconds", type=int, default=60, help="for each target [60]")
    parser.add_argument(
        "--timeout", type=int, default=10, help="seconds an input may take; instrumented code is slow [10]"
    )
    given = parser.parse_args()
    targets = given.only or TARGETS
    if not install():
        version = f"Python {sys.version.split()[0]} on {sysconfig.get_platform()}"
        print(f"fuzz: there is no wheel of atheris for {version}; only the kept corpus is run.", file=sys.stderr)
        slow = [target for target in targets if not replay(target)]
        return 1 if slow else 0
    failed = []
    for target in targets:
        print(f"-- {target}", file=sys.stderr, flush=True)
        if fuzz(target, given.seconds, given.timeout) or not replay(target):
            failed.append(target)
    print(f"fuzz: {len(targets) - len(failed)} targets held, {len(failed)} failed {' '.join(failed)}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
