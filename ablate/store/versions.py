"""What may change a number's last bits without being part of a trial: the versions and the machine."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def installed() -> dict[str, str]:
    """Versions of Python, torch and ablate, the platform and the processor; torch is not imported for it."""
    return {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "ablate": _version("ablate"),
        "platform": f"{sys.platform}-{platform.machine()}",
        "cpu": _processor(),
    }


def _version(package: str) -> str:
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
