"""The GPU of a trial: which one, how much of its memory, and how much of that it needed. Nothing of it without CUDA."""

from __future__ import annotations

import gc

import torch

from ablate.errors import RefusedError


def take(gpu: int | None, memory: float | None) -> None:
    """Compute on `gpu` of those that this process sees (None: the first), with at most the share `memory` of it.

    What was measured of its memory is forgotten. RefusedError where there is no such GPU.
    """
    if not torch.cuda.is_available():
        return
    chosen, seen = gpu or 0, torch.cuda.device_count()
    if chosen >= seen:
        raise RefusedError(
            f"a trial was to have GPU {chosen}, and {seen} {'is' if seen == 1 else 'are'} to be seen here, from 0\n"
            "  = CUDA_VISIBLE_DEVICES says which are; a trial of several processes takes one for each"
        )
    torch.cuda.set_device(chosen)
    torch.cuda.set_per_process_memory_fraction(1.0 if memory is None else memory)
    torch.cuda.reset_peak_memory_stats()


def give_back() -> None:
    """Let go of memory that PyTorch keeps for this process's next tensors: others on the GPU may need it."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def peak() -> dict[str, int]:
    """`peak_memory`: the most bytes that tensors took at once since `take`; nothing without CUDA."""
    return {"peak_memory": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
