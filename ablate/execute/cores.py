"""How many workers a machine bears."""

from __future__ import annotations

import os


def available_cores() -> int:
    """The cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
