"""What may change a number's last bits without being part of a trial: the versions and the machine.

What computes a trial's attention is kept with them, under ATTENTION: a trial does not go on from a checkpoint that was
made with another operator. It is not among what must be the same for two trials to be compared (`of_machine`), since it
follows from the machine, its versions and the block: a block with a map on the scores uses another backend than one
without, on the same machine, and what it takes is part of what is asked. It is in `trials.attention`, beside
`versions_id`.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ATTENTION = "attention"
"""Among the versions of a trial: what computes its attentions, `layers.*.attention xformers (fa2F@2.5.7-pt, …)`."""


def of_machine(versions: Mapping[str, str]) -> dict[str, str]:
    """What of a trial's versions is the machine's and not its block's: trials that differ in it are not paired."""
    return {name: version for name, version in versions.items() if name != ATTENTION}


def installed() -> dict[str, str]:
    """Versions of Python, torch and ablate, the platform and the processor; torch is not imported for it."""
    return {
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "ablate": version_of("ablate"),
        "platform": f"{sys.platform}-{platform.machine()}",
        "cpu": _processor(),
    }


def version_of(package: str) -> str:
    """The version of a distribution that is installed here, or that it is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The processor's name; Linux says it in a file and elsewhere `platform` knows it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
