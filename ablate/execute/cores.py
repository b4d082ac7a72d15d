"""How many workers a machine can run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypeAlias

Pack: TypeAlias = Literal["auto"] | int | None
"""How many trials share a GPU: up to a number, or as many as fit into its memory; None: the executor's default."""

MOST = 8
"""The most trials that share a GPU by default: more slow each other down, however small they are."""

MOST_PACKED = 9999
"""The most trials that can be requested to share a GPU: Ray counts in parts of ten thousand."""

ROOM = 4 * 2**30
"""Bytes of a GPU for each of its trials by default, of which the CUDA context of a process takes an eighth."""


def default_workers(threads: int, gpus: Sequence[int], ranks: int = 1, pack: Pack = None) -> int:
    """Return the number of workers for trials of `threads` threads in each of `ranks` processes: as many as the cores
    allow; with `gpus`, of so many bytes, no more than those allow with up to `pack` trials on each (see `on_a_gpu`)."""
    by_cores = max(1, available_cores() // (threads * ranks))
    if not gpus:
        return by_cores
    if ranks > 1:
        return max(1, min(by_cores, len(gpus) // ranks))
    return min(by_cores, sum(on_a_gpu(memory, pack) for memory in gpus))


def on_a_gpu(memory: int, pack: Pack) -> int:
    """Return how many trials may share a GPU of `memory` bytes: `pack`, or one for each 4 GiB, at most 8."""
    return pack if isinstance(pack, int) else max(1, min(MOST, memory // ROOM))


def available_cores() -> int:
    """Return the number of cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
