"""How many workers a machine bears."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

Pack: TypeAlias = Literal["auto"] | int | None
"""How many trials share a GPU: up to a number, or what memory bears; None: what the executor does of its own."""

MOST = 8
"""So many trials share a GPU by default: beyond that they get in each other's way, however small they are."""

MOST_PACKED = 9999
"""No more may be asked to share one: Ray counts in parts of ten thousand."""

ROOM = 4 * 2**30
"""Bytes of a GPU for each of its trials by default, of which the CUDA context of a process takes an eighth."""


def default_workers(threads: int, ranks: int = 1, pack: Pack = None) -> int:
    """Worker processes for trials of so many threads, in so many processes each: as many as the cores bear; where there
    are GPUs, no more than those bear with up to `pack` trials on each (see `on_a_gpu`)."""
    from ablate.execute.device import gpus

    by_cores, there = max(1, available_cores() // (threads * ranks)), gpus()
    if not there:
        return by_cores
    if ranks > 1:
        return max(1, min(by_cores, len(there) // ranks))
    return min(by_cores, sum(on_a_gpu(gpu.memory, pack) for gpu in there))


def on_a_gpu(memory: int, pack: Pack) -> int:
    """Up to how many trials share a GPU of so many bytes: `pack`, or one for each 4 GiB, at most 8."""
    return pack if isinstance(pack, int) else max(1, min(MOST, memory // ROOM))


def available_cores() -> int:
    """The cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
