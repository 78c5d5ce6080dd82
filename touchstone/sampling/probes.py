"""Questions to the machine: memory, swapping, processor, pressure, throttling, graphics cards. Unknown is None.

Nothing here raises: a probe that a system lacks, or that breaks on some machine, is unknown there. Only the standard
library, psutil and (where it is installed) NVIDIA's nvidia-ml-py are used, and nothing that is slow to import.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import psutil

T = TypeVar("T")

Pressure = Literal["normal", "warn", "critical"]

PSI_FILE: Final = Path("/proc/pressure/memory")
PSI_LIMIT: Final = 10.0
"""Per cent of the last ten seconds. Some task stalled so long for memory: warn. All tasks did: critical."""

THROTTLE_FILES: Final = "devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"
MOST_THROTTLE_FILES: Final = 64
THERM_EVERY_S: Final = 15.0
"""macOS tells through a command only, which is not started more often than this."""

_GPU_SLOWED: Final = 0x08 | 0x20 | 0x40 | 0x80
"""Clocks-event reasons: hardware, software thermal, hardware thermal, power brake. A power cap is no throttling."""


def known(probe: Callable[[], T | None]) -> T | None:
    """What the probe says; None for whatever goes wrong in it."""
    try:
        with warnings.catch_warnings():
            # psutil warns, and says 0, where it cannot find a figure.
            warnings.simplefilter("error")
            return probe()
    except Exception:
        return None


def psi_pressure(text: str) -> Pressure | None:
    """Linux: `/proc/pressure/memory` as a word; None if it is something else."""
    stalled = {kind: float(share) for kind, share in re.findall(r"^(some|full) avg10=(\d+(?:\.\d+)?)", text, re.M)}
    if "some" not in stalled:
        return None
    if stalled.get("full", 0.0) >= PSI_LIMIT:
        return "critical"
    return "warn" if stalled["some"] >= PSI_LIMIT else "normal"


def vm_pressure(level: int) -> Pressure | None:
    """macOS: `kern.memorystatus_vm_pressure_level` as a word."""
    words: dict[int, Pressure] = {1: "normal", 2: "warn", 4: "critical"}
    return words.get(level)


def therm_throttled(text: str) -> bool | None:
    """macOS: whether `pmset -g therm` tells of a speed limit or a warning; None where it has recorded nothing."""
    limits = [int(value) for value in re.findall(r"CPU_(?:Speed|Scheduler)_Limit\s*=\s*(\d{1,9})", text)]
    levels = [int(value) for value in re.findall(r"(?:thermal|performance) warning level\D*(\d{1,9})", text, re.I)]
    if not limits and not levels:
        return None
    return any(limit < 100 for limit in limits) or any(level > 0 for level in levels)


def sysctl(name: str) -> bytes | None:
    """A value of macOS's kernel."""
    if sys.platform != "darwin":
        return None
    libc = ctypes.CDLL(None)
    size = ctypes.c_size_t(0)
    if libc.sysctlbyname(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    data = ctypes.create_string_buffer(size.value)
    if libc.sysctlbyname(name.encode(), data, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return data.raw[: size.value]


def pressure() -> Pressure | None:
    """How short of memory the machine is, in its own judgement."""
    if sys.platform == "darwin":
        level = sysctl("kern.memorystatus_vm_pressure_level")
        return None if level is None else vm_pressure(int.from_bytes(level, sys.byteorder))
    return psi_pressure(PSI_FILE.read_text(encoding="ascii")) if sys.platform == "linux" else None


def gpu_names() -> list[str] | None:
    """What the graphics cards are called; None where nothing tells."""
    return known(lambda: [card["name"] for card in Cards().read()])


class Cards:
    """NVIDIA's cards, through nvidia-ml-py. Raises where that is not installed or finds no driver."""

    def __init__(self) -> None:
        import pynvml  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    def read(self) -> list[dict[str, Any]]:
        """One entry a card."""
        return [self._card(handle) for handle in self._handles]

    def _card(self, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        name = known(lambda: nvml.nvmlDeviceGetName(handle))
        memory = known(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        power = known(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        reasons = known(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:  # as versions before 12.535 called it
            reasons = known(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return {
            "name": name.decode("utf-8", "replace") if isinstance(name, bytes) else name,
            "utilization_percent": known(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            "memory_used_bytes": None if memory is None else memory.used,
            "memory_total_bytes": None if memory is None else memory.total,
            "temperature_c": known(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            "power_w": None if power is None else power / 1000,
            "throttled": None if reasons is None else bool(reasons & _GPU_SLOWED),
        }


class Machine:
    """This machine, asked again and again. Rates are those since the question before."""

    def __init__(self, sys_folder: Path = Path("/sys")) -> None:
        self._counters = sorted(sys_folder.glob(THROTTLE_FILES))[:MOST_THROTTLE_FILES]
        self._throttles = self._throttle_count()
        self._cards = known(Cards)
        self._swap: tuple[float, int] | None = None
        self._cpu_asked = False
        self._therm: tuple[float, bool | None] | None = None

    def sample(self, ts: float, clock: float) -> dict[str, Any]:
        """A line of resources.jsonl. `ts`: seconds since the epoch; `clock`: seconds that only go forwards."""
        memory = known(psutil.virtual_memory)
        cards = None if self._cards is None else known(self._cards.read)
        return {
            "ts": ts,
            # psutil's own `used` leaves out something else on each system; this says the same on all of them.
            "ram_used_bytes": None if memory is None else max(0, memory.total - memory.available),
            "ram_available_bytes": None if memory is None else memory.available,
            "swap_out_bytes_per_s": self._swap_rate(clock),
            "cpu_percent": self._cpu(),
            "pressure": known(pressure),
            "throttled": self._throttled(clock, cards),
            "gpus": cards,
        }

    def _swap_rate(self, clock: float) -> float | None:
        total = None if sys.platform == "win32" else known(lambda: psutil.swap_memory().sout)  # always 0 on Windows
        before, self._swap = self._swap, None if total is None else (clock, total)
        if total is None or before is None or clock <= before[0] or total < before[1]:
            return None
        return (total - before[1]) / (clock - before[0])

    def _cpu(self) -> float | None:
        percent = known(lambda: psutil.cpu_percent(interval=None))
        # The first answer is about no time at all.
        asked, self._cpu_asked = self._cpu_asked, True
        return percent if asked else None

    def _throttle_count(self) -> int | None:
        return known(lambda: sum(int(path.read_text()) for path in self._counters)) if self._counters else None

    def _throttled(self, clock: float, cards: list[dict[str, Any]] | None) -> bool | None:
        told = [card["throttled"] for card in cards or ()]
        count, before = self._throttle_count(), self._throttles
        self._throttles = count
        if count is not None and before is not None:
            told.append(count > before)
        if sys.platform == "darwin":
            told.append(self._therm_throttled(clock))
        told = [value for value in told if value is not None]
        return any(told) if told else None

    def _therm_throttled(self, clock: float) -> bool | None:
        if self._therm is None or clock - self._therm[0] >= THERM_EVERY_S:
            self._therm = clock, known(lambda: therm_throttled(_output("pmset", "-g", "therm")))
        return self._therm[1]


def _output(*command: str) -> str:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=5, check=True
    ).stdout.decode("utf-8", "replace")
