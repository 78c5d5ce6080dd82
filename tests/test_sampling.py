"""The sampling process and its probes: each system's own words, what is unknown, and an end in every case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.load import read_resources
from touchstone.sampling.host import describe
from touchstone.sampling.parent import Sampler
from touchstone.sampling.probes import Machine, known, psi_pressure, therm_throttled, vm_pressure

PSI = "some avg10={some} avg60=0.00 avg300=0.00 total=0\nfull avg10={full} avg60=99.00 avg300=99.00 total=1\n"

# NVIDIA's module as far as it is used; the names and the bits are those of nvidia-ml-py 13.
PYNVML = """\
NVML_TEMPERATURE_GPU = 0
class NVMLError(Exception): pass
class Holder:
    def __init__(self, **fields): self.__dict__.update(fields)
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(i): return i
def nvmlDeviceGetName(h): return b"Card" if h else "Card"
def nvmlDeviceGetMemoryInfo(h): return Holder(used=5, total=8)
def nvmlDeviceGetUtilizationRates(h): return Holder(gpu=70, memory=1)
def nvmlDeviceGetTemperature(h, sensor): return 61
def nvmlDeviceGetPowerUsage(h): raise NVMLError("Not Supported")
def nvmlDeviceGetCurrentClocksEventReasons(h): return REASONS
"""


def sample(path: Path | None = None, **env: str) -> dict[str, Any]:
    """One line as the process writes it, with modules in `path` beside ours."""
    log = (path or Path()) / "resources.jsonl"
    added = {} if path is None else {"PYTHONPATH": str(path)}
    subprocess.run(
        [sys.executable, "-P", "-m", "touchstone.sampling", "--log", str(log)],
        input=b"end\n", env={**os.environ, **added, **env}, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    data = log.read_bytes().splitlines()[-1]
    read_resources(data)
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.mark.parametrize(
    ("some", "full", "word"),
    [("0.00", "0.00", "normal"), ("9.99", "0.00", "normal"), ("10.00", "3.00", "warn"), ("60.10", "10.00", "critical")],
)
def test_linux_says_how_much_stalls(some: str, full: str, word: str) -> None:
    assert psi_pressure(PSI.format(some=some, full=full)) == word


def test_macos_has_levels() -> None:
    assert [vm_pressure(level) for level in (0, 1, 2, 3, 4)] == [None, "normal", "warn", None, "critical"]


@pytest.mark.parametrize(
    ("text", "throttled"),
    [
        ("CPU_Scheduler_Limit \t= 100\n\tCPU_Available_CPUs \t= 8\n\tCPU_Speed_Limit \t= 100\n", False),
        ("CPU_Scheduler_Limit \t= 100\n\tCPU_Speed_Limit \t= 57\n", True),
        ("Note: No thermal warning level has been recorded\nNote: No CPU power status has been recorded\n", None),
        ("Thermal Warning Level = 1\n", True),
        ("", None),
    ],
    ids=["full speed", "slowed", "nothing recorded", "a warning", "nothing"],
)  # fmt: skip
def test_macos_tells_of_throttling(text: str, throttled: bool | None) -> None:
    assert therm_throttled(text) is throttled


@given(st.text())
def test_other_words_are_no_answer_and_no_error(text: str) -> None:
    assert psi_pressure(text) in (None, "normal", "warn", "critical")
    assert therm_throttled(text) in (None, True, False)


def test_a_probe_that_breaks_or_warns_is_unknown() -> None:
    import warnings

    def warns() -> int:
        warnings.warn("could not be found; set to 0", RuntimeWarning, stacklevel=1)
        return 0

    assert known(lambda: 1 // 0) is None and known(warns) is None and known(lambda: 3) == 3


def test_processors_that_count_their_throttling(tmp_path: Path) -> None:
    counter = tmp_path / "devices" / "system" / "cpu" / "cpu0" / "thermal_throttle" / "package_throttle_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("7\n")
    machine = Machine(tmp_path)
    told = []
    for clock, count in enumerate(("7", "8", "8", "broken", "9", "9")):
        counter.write_text(count)
        told.append(machine.sample(0.0, float(clock))["throttled"])
    if sys.platform != "darwin":
        assert told == [False, True, False, None, None, False]


def test_rates_need_two_samples(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    first, second = machine.sample(1.0, 1.0), machine.sample(2.0, 2.0)
    assert first["swap_out_bytes_per_s"] is None and first["cpu_percent"] is None and first["throttled"] is None
    assert second["cpu_percent"] is not None
    assert first["ram_used_bytes"] > 0 and first["ram_available_bytes"] > 0


@pytest.mark.parametrize(
    ("reasons", "throttled"), [(0x1, False), (0x4, False), (0x24, True), (0x40, True), (0x8, True)]
)
def test_nvidia_cards(tmp_path: Path, reasons: int, throttled: bool) -> None:
    (tmp_path / "pynvml.py").write_text(PYNVML.replace("REASONS", str(reasons)))
    line = sample(tmp_path)
    card = {
        "name": "Card", "utilization_percent": 70, "memory_used_bytes": 5, "memory_total_bytes": 8,
        "temperature_c": 61, "power_w": None, "throttled": throttled,
    }  # fmt: skip
    assert line["gpus"] == [card, card] and line["throttled"] is throttled


def test_without_a_driver_nothing_is_known_of_cards(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): raise OSError('no driver')")
    assert sample(tmp_path)["gpus"] is None


def test_the_machine_in_bundle_yaml() -> None:
    found = describe()
    assert found.keys() == {"os", "cpu", "ram_bytes", "gpu"} and found["ram_bytes"] > 10**8 and found["os"]


def test_the_peak_is_heard_and_nothing_stays(tmp_path: Path) -> None:
    with Sampler(tmp_path / "resources.jsonl", interval_s=0.01) as sampler:
        end = time.monotonic() + 60
        while sampler.peak is None and time.monotonic() < end:
            time.sleep(0.01)
        pid = sampler.pid
    used = [json.loads(line)["ram_used_bytes"] for line in (tmp_path / "resources.jsonl").read_text().splitlines()]
    assert sampler.peak == max(used) and pid is not None
    if sys.platform != "win32":
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_an_interpreter_that_is_gone_costs_the_load_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    with Sampler(None, notes.append) as sampler:
        assert sampler.pid is None
    assert sampler.peak is None and "the run goes on" in notes[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_a_full_disk_costs_lines_and_is_told_once(tmp_path: Path) -> None:
    code = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"sys.argv = ['x', '--interval', '0.01', '--log', {str(tmp_path / 'r.jsonl')!r}];"
        "runpy.run_module('touchstone.sampling', run_name='__main__')"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        told = [process.stdout.readline()]
        while told[-1] and b"r.jsonl" not in told[-1]:
            told.append(process.stdout.readline())
        process.stdin.write(b"end\n")
        process.stdin.close()
        told += process.stdout.readlines()
    assert process.returncode == 0 and sum(b"r.jsonl" in line for line in told) == 1
    assert all(json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines())
