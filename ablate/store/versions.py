"""What may change the last bits of a number without being part of a trial: versions and machine.

What computes a trial's attention is kept with them, under ATTENTION: a trial does not continue from a checkpoint made
with another operator. It need not be the same for two trials to be compared (`of_machine`), since it follows from the
machine, its versions and the block: on one machine, a block with a map on the scores uses another backend than a block
without, and the cost of that is part of the comparison. It is in `trials.attention`, beside `versions_id`.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ATTENTION = "attention"
"""Key among the versions of a trial: what computes its attention, `layers.*.attention xformers (fa2F@2.5.7-pt, …)`."""


def of_machine(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of a trial that depend on the machine alone: trials that differ in them are not paired."""
    return {name: version for name, version in versions.items() if name != ATTENTION}


def installed() -> dict[str, str]:
    """Return the versions of Python, torch and ablate, the platform and the processor, without importing torch."""
    return {
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "ablate": version_of("ablate"),
        "platform": f"{sys.platform}-{platform.machine()}",
        "cpu": _processor(),
    }


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Return the processor's name, from a file on Linux and from `platform` elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
