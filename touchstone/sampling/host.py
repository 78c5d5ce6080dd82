"""The machine that a run was made on, as bundle.yaml describes it."""

from __future__ import annotations

import ipaddress
import platform
import re
import socket
from pathlib import Path
from typing import Any

import psutil

from touchstone.sampling.probes import gpu_names, known, sysctl


def describe() -> dict[str, Any]:
    """`host` of bundle.yaml: {os, cpu, ram_bytes, gpu}; null where nothing tells."""
    return {
        "os": _system(),
        "cpu": known(_cpu),
        "ram_bytes": known(lambda: psutil.virtual_memory().total),
        "gpu": ", ".join(name for name in gpu_names() or () if name) or None,
    }


def is_here(name: str) -> bool:
    """Whether a server at this host name or address runs on this machine. Nobody is asked, so that nothing waits."""
    bare = name.lower().rstrip(".").partition("%")[0]
    if bare in {"localhost", socket.gethostname().lower()} or bare.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    cards = known(psutil.net_if_addrs) or {}
    return str(address) in {item.address.partition("%")[0].lower() for items in cards.values() for item in items}


def _system() -> str | None:
    """Name and version, without the build suffixes that say nothing to anybody."""
    version = re.match(r"\d+(\.\d+)?", platform.release())
    return " ".join(filter(None, (platform.system(), version and version[0]))) or None


def _cpu() -> str | None:
    brand = sysctl("machdep.cpu.brand_string")
    if brand:
        return brand.rstrip(b"\0").decode("utf-8", "replace") or None
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip() or None
    except OSError:
        pass
    return platform.processor() or platform.machine() or None
