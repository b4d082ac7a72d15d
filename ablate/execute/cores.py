"""How many workers a machine bears."""

from __future__ import annotations

import os


def default_workers(threads: int) -> int:
    """Worker processes for trials of so many threads: as many as the cores bear; on a GPU one, which has it all."""
    from ablate.execute.device import device

    return 1 if device() == "cuda" else max(1, available_cores() // threads)


def available_cores() -> int:
    """The cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
